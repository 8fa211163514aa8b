with customers as (
    select * from {{ ref('dim_customer') }}
),

banded as (
    select
        customer_id,
        tier,
        net_worth,
        case
            when year(birth_date) < 1965 then 'before 1965'
            when year(birth_date) < 1985 then '1965 to 1984'
            when birth_date is not null then 'from 1985'
            else 'unknown'
        end as generation,
        coalesce(country, 'unknown') as country
    from customers
    where
        is_current
        and status = 'active'
),

final as (
    select
        generation,
        country,
        count(*) as customers,
        count_if(tier = 1) as first_tier_customers,
        cast(avg(net_worth) as decimal(20, 2)) as average_net_worth
    from banded
    group by
        generation,
        country
)

select * from final
