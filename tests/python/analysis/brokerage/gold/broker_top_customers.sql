with trades as (
    select * from {{ ref('fact_trades') }}
),

customers as (
    select * from {{ ref('current_customers') }}
),

totals as (
    select
        broker_id,
        customer_id,
        count(*) as trades,
        cast(sum(commission) as decimal(20, 2)) as commission
    from trades
    where broker_id is not null
    group by
        broker_id,
        customer_id
),

ranked as (
    select
        *,
        rank() over (partition by broker_id order by commission desc) as place,
        cast(
            commission / nullif(sum(commission) over (partition by broker_id), 0) as decimal(18, 4)
        ) as share_of_broker
    from totals
),

final as (
    select
        ranked.broker_id,
        ranked.customer_id,
        customers.last_name,
        customers.tier,
        ranked.trades,
        ranked.commission,
        ranked.place,
        ranked.share_of_broker
    from ranked
    left join customers
        on ranked.customer_id = customers.customer_id
    where ranked.place <= 3
)

select * from final
