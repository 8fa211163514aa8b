with trades as (
    select * from {{ ref('trades') }}
),

prices as (
    select * from {{ ref('daily_market') }}
),

days as (
    select
        symbol,
        trade_date,
        count(*) as trades,
        count(distinct account_id) as account_count,
        sum(quantity) as quantity,
        min(trade_price) as lowest_price,
        max(trade_price) as highest_price
    from trades
    group by
        symbol,
        trade_date
),

final as (
    select
        days.symbol,
        days.trade_date,
        days.trades,
        days.account_count,
        days.quantity,
        days.lowest_price,
        days.highest_price,
        prices.close,
        coalesce(days.lowest_price < prices.low or days.highest_price > prices.high, false) as is_off_market,
        cast(days.quantity / nullif(prices.volume, 0) as decimal(18, 6)) as share_of_volume
    from days
    left join prices
        on
            days.symbol = prices.symbol
            and days.trade_date = prices.market_date
)

select * from final
