with holdings as (
    select * from {{ ref('current_holdings') }}
),

prices as (
    select * from {{ ref('daily_market') }}
),

accounts as (
    select * from {{ ref('current_accounts') }}
),

last_prices as (
    select
        symbol,
        max(market_date) as market_date,
        max_by(close, market_date) as last_price
    from prices
    group by symbol
),

final as (
    select
        holdings.account_id,
        holdings.symbol,
        accounts.customer_id,
        accounts.broker_id,
        holdings.quantity,
        last_prices.last_price,
        last_prices.market_date as priced_on,
        cast(holdings.quantity * last_prices.last_price as decimal(20, 2)) as market_value,
        cast(
            holdings.quantity * last_prices.last_price - holdings.book_value as decimal(20, 2)
        ) as unrealised_gain,
        rank() over (
            partition by holdings.account_id
            order by holdings.quantity * last_prices.last_price desc nulls last
        ) as place_in_account
    from holdings
    inner join accounts
        on holdings.account_id = accounts.account_id
    left join last_prices
        on holdings.symbol = last_prices.symbol
)

select * from final
