with prices as (
    select * from {{ ref('daily_market') }}
),

returns as (
    select
        symbol,
        market_date,
        close,
        volume,
        cast(close / nullif(close_before, 0) - 1 as decimal(18, 6)) as daily_return
    from prices
),

final as (
    select
        symbol,
        market_date,
        close,
        daily_return,
        cast(avg(close) over last_month as decimal(18, 4)) as average_close,
        round(stddev_samp(daily_return) over last_month, 6) as volatility,
        cast(sum(close * volume) over last_month / nullif(sum(volume) over last_month, 0) as decimal(18, 4))
            as average_price,
        first_value(close) over last_month as close_month_before
    from returns
    window
        last_month as (
            partition by symbol
            order by market_date
            rows between 19 preceding and current row
        )
)

select * from final
