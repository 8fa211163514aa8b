with watches as (
    select * from {{ ref('fact_watches') }}
),

customers as (
    select * from {{ ref('current_customers') }}
),

active_watchers as (
    select distinct
        symbol,
        customer_id
    from watches
    where removed_on is null
),

final as (
    select
        active_watchers.symbol,
        count(*) as watchers,
        count_if(customers.tier = 1) as first_tier_watchers,
        count(distinct customers.city) as cities
    from active_watchers
    inner join customers
        on active_watchers.customer_id = customers.customer_id
    group by active_watchers.symbol
)

select * from final
