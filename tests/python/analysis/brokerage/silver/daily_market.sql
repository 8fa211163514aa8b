with prices as (
    select * from {{ source('brokerage', 'daily_price') }}
),

final as (
    select
        symbol,
        market_date,
        close,
        high,
        low,
        volume,
        lag(close) over (partition by symbol order by market_date) as close_before,
        max(high) over year_before as year_high,
        max_by(market_date, struct(high, market_date)) over year_before as year_high_date,
        min(low) over year_before as year_low,
        min_by(market_date, struct(low, market_date)) over year_before as year_low_date
    from prices
    window
        year_before as (
            partition by symbol
            order by market_date
            range between interval 364 days preceding and current row
        )
)

select * from final
