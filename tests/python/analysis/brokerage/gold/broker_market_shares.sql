with days as (
    select * from {{ ref('broker_daily_trades') }}
),

brokers as (
    select * from {{ ref('dim_broker') }}
),

totals as (
    select
        sum(amount) as amount,
        sum(commission) as commission
    from days
),

of_brokers as (
    select
        broker_id,
        sum(trades) as trades,
        sum(amount) as amount,
        sum(commission) as commission
    from days
    group by broker_id
),

final as (
    select
        of_brokers.broker_id,
        brokers.last_name,
        of_brokers.trades,
        of_brokers.amount,
        cast(of_brokers.amount / nullif(totals.amount, 0) as decimal(18, 6)) as share_of_amount,
        cast(
            of_brokers.commission / nullif(totals.commission, 0) as decimal(18, 6)
        ) as share_of_commission
    from of_brokers
    cross join totals
    left join brokers
        on of_brokers.broker_id = brokers.broker_id
)

select * from final
