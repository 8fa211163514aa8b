with positions as (
    select * from {{ ref('account_positions') }}
),

customers as (
    select * from {{ ref('current_customers') }}
),

totals as (
    select
        customer_id,
        cast(sum(market_value) as decimal(28, 2)) as market_value
    from positions
    group by customer_id
),

final as (
    select
        customers.customer_id,
        customers.last_name,
        totals.market_value,
        rank() over (order by totals.market_value desc) as place
    from customers
    inner join totals
        on customers.customer_id = totals.customer_id
)

select * from final
