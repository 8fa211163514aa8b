with trades as (
    select * from {{ ref('trades') }}
),

events as (
    select * from {{ ref('trade_events') }}
),

final as (
    select
        trades.trade_id,
        trades.account_id,
        trades.symbol,
        trades.traded_at,
        trades.amount
    from trades
    where not exists (
        select 1
        from events
        where
            events.trade_id = trades.trade_id
            and events.status_id in ('CMPT', 'CNCL')
    )
)

select * from final
