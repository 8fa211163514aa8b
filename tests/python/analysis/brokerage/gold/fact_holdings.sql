with holdings as (
    select * from {{ ref('holding_changes') }}
),

trades as (
    select * from {{ ref('trades') }}
),

accounts as (
    select * from {{ ref('dim_account') }}
),

securities as (
    select * from {{ ref('dim_security') }}
),

final as (
    select
        holdings.opening_trade_id,
        holdings.trade_id,
        accounts.account_key,
        accounts.customer_id,
        securities.security_key,
        opening_trades.trade_date as opened_on,
        opening_trades.trade_price as opening_price,
        cast(holdings.traded_at as date) as changed_on,
        holdings.trade_price,
        holdings.quantity_after as quantity,
        cast(
            holdings.quantity_after * (holdings.trade_price - opening_trades.trade_price)
            as decimal(18, 2)
        ) as unrealised_gain
    from holdings
    inner join trades as opening_trades
        on holdings.opening_trade_id = opening_trades.trade_id
    inner join accounts
        on
            holdings.account_id = accounts.account_id
            and holdings.traded_at >= accounts.valid_from
            and holdings.traded_at < accounts.valid_to
    left join securities
        on
            holdings.symbol = securities.symbol
            and holdings.traded_at >= securities.valid_from
            and holdings.traded_at < securities.valid_to
)

select * from final
