with changes as (
    select * from {{ source('brokerage', 'holding_change') }}
),

trades as (
    select * from {{ ref('trades') }}
),

final as (
    select
        changes.opening_trade_id,
        changes.trade_id,
        trades.account_id,
        trades.symbol,
        trades.traded_at,
        trades.trade_price,
        changes.quantity_before,
        changes.quantity_after,
        changes.quantity_after - changes.quantity_before as quantity_change
    from changes
    inner join trades
        on changes.trade_id = trades.trade_id
)

select * from final
