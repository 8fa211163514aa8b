with prospects as (
    select * from {{ ref('prospects') }}
),

customers as (
    select
        customer_id,
        upper(trim(last_name)) as last_name_key,
        upper(trim(first_name)) as first_name_key,
        upper(trim(postal_code)) as postal_code_key
    from {{ ref('customer_versions') }}
    where
        is_current
        and status = 'active'
),

final as (
    select
        prospects.prospect_id,
        prospects.last_name,
        prospects.first_name,
        prospects.nameplate,
        prospects.credit_rating,
        prospects.net_worth,
        count(customers.customer_id) > 0 as is_customer,
        min(customers.customer_id) as customer_id
    from prospects
    left join customers
        on
            prospects.last_name_key = customers.last_name_key
            and prospects.first_name_key = customers.first_name_key
            and prospects.postal_code_key = customers.postal_code_key
    group by
        prospects.prospect_id,
        prospects.last_name,
        prospects.first_name,
        prospects.nameplate,
        prospects.credit_rating,
        prospects.net_worth
)

select * from final
