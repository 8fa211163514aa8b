with customers as (
    select
        *,
        upper(trim(last_name)) as last_name_key,
        upper(trim(first_name)) as first_name_key,
        upper(trim(postal_code)) as postal_code_key
    from {{ ref('customer_versions') }}
),

prospects as (
    select * from {{ ref('prospects') }}
),

-- Two prospects of one name and postal code are taken for one person: the first of them.
matched as (
    select
        last_name_key,
        first_name_key,
        postal_code_key,
        min_by(nameplate, prospect_id) as nameplate,
        min_by(credit_rating, prospect_id) as credit_rating,
        min_by(net_worth, prospect_id) as net_worth
    from prospects
    group by
        last_name_key,
        first_name_key,
        postal_code_key
),

final as (
    select
        md5(concat_ws('|', customers.customer_id, customers.customer_version_id)) as customer_key,
        customers.customer_version_id,
        customers.customer_id,
        customers.status,
        customers.last_name,
        customers.first_name,
        customers.email,
        customers.tier,
        customers.birth_date,
        customers.country,
        customers.city,
        customers.postal_code,
        customers.local_tax_rate,
        customers.national_tax_rate,
        matched.nameplate,
        matched.credit_rating,
        matched.net_worth,
        customers.valid_from,
        customers.valid_to,
        customers.is_current
    from customers
    left join matched
        on
            customers.last_name_key = matched.last_name_key
            and customers.first_name_key = matched.first_name_key
            and customers.postal_code_key = matched.postal_code_key
)

select * from final
