with changes as (
    select * from {{ source('brokerage', 'customer_change') }}
),

tax_rates as (
    select * from {{ ref('tax_rates') }}
),

-- A change carries only what it changes.
filled as (
    select
        change_id as customer_version_id,
        customer_id,
        if(action = 'INACT', 'inactive', 'active') as status,
        last_value(last_name) ignore nulls over versions as last_name,
        last_value(first_name) ignore nulls over versions as first_name,
        last_value(email) ignore nulls over versions as email,
        last_value(tier) ignore nulls over versions as tier,
        last_value(birth_date) ignore nulls over versions as birth_date,
        last_value(country) ignore nulls over versions as country,
        last_value(city) ignore nulls over versions as city,
        last_value(postal_code) ignore nulls over versions as postal_code,
        last_value(local_tax_id) ignore nulls over versions as local_tax_id,
        last_value(national_tax_id) ignore nulls over versions as national_tax_id,
        changed_at as valid_from,
        lead(changed_at) over versions as next_changed_at
    from changes
    window versions as (partition by customer_id order by changed_at, change_id)
),

final as (
    select
        filled.customer_version_id,
        filled.customer_id,
        filled.status,
        filled.last_name,
        filled.first_name,
        filled.email,
        filled.tier,
        filled.birth_date,
        filled.country,
        filled.city,
        filled.postal_code,
        local_rates.name as local_tax_name,
        local_rates.rate as local_tax_rate,
        national_rates.name as national_tax_name,
        national_rates.rate as national_tax_rate,
        filled.valid_from,
        coalesce(filled.next_changed_at, timestamp '9999-12-31 00:00:00') as valid_to,
        filled.next_changed_at is null as is_current
    from filled
    left join tax_rates as local_rates
        on filled.local_tax_id = local_rates.tax_id
    left join tax_rates as national_rates
        on filled.national_tax_id = national_rates.tax_id
)

select * from final
