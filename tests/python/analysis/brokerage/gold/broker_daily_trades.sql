with trades as (
    select * from {{ ref('fact_trades') }}
),

final as (
    select
        broker_id,
        trade_date,
        count(*) as trades,
        count(distinct account_id) as account_count,
        count(distinct symbol) as symbols,
        cast(sum(amount) as decimal(20, 2)) as amount,
        cast(sum(commission) as decimal(20, 2)) as commission,
        cast(avg(commission) as decimal(18, 4)) as average_commission,
        max(amount) as largest_amount
    from trades
    where status = 'Completed'
    group by
        broker_id,
        trade_date
)

select * from final
