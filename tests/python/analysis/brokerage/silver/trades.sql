with trades as (
    select * from {{ source('brokerage', 'trade') }}
),

statuses as (
    select * from {{ ref('status_types') }}
),

types as (
    select * from {{ ref('trade_types') }}
),

final as (
    select
        trades.trade_id,
        trades.traded_at,
        cast(trades.traded_at as date) as trade_date,
        trades.account_id,
        trades.symbol,
        statuses.name as status,
        types.name as trade_type,
        types.is_sell,
        types.is_market,
        if(trades.is_cash, 'cash', 'margin') as payment,
        trades.quantity,
        trades.bid_price,
        trades.trade_price,
        cast(trades.quantity * trades.trade_price as decimal(18, 2)) as amount,
        trades.fee,
        trades.commission,
        trades.tax,
        trades.executed_by
    from trades
    left join statuses
        on trades.status_id = statuses.status_id
    left join types
        on trades.type_id = types.type_id
)

select * from final
