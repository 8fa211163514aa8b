with trades as (
    select * from {{ ref('trades') }}
),

accounts as (
    select * from {{ ref('dim_account') }}
),

securities as (
    select * from {{ ref('dim_security') }}
),

brokers as (
    select * from {{ ref('dim_broker') }}
),

final as (
    select
        trades.trade_id,
        accounts.account_key,
        accounts.account_id,
        accounts.customer_id,
        accounts.customer_tier,
        brokers.broker_id,
        brokers.branch,
        securities.security_key,
        trades.symbol,
        securities.sector,
        trades.trade_date,
        trades.traded_at,
        trades.status,
        trades.is_sell,
        trades.quantity,
        trades.trade_price,
        trades.amount,
        trades.fee,
        trades.commission,
        trades.tax,
        cast(
            (trades.trade_price - trades.bid_price) * trades.quantity as decimal(18, 2)
        ) as slippage
    from trades
    inner join accounts
        on
            trades.account_id = accounts.account_id
            and trades.traded_at >= accounts.valid_from
            and trades.traded_at < accounts.valid_to
    left join securities
        on
            trades.symbol = securities.symbol
            and trades.traded_at >= securities.valid_from
            and trades.traded_at < securities.valid_to
    left join brokers
        on accounts.broker_id = brokers.broker_id
)

select * from final
