with prices as (
    select * from {{ ref('daily_market') }}
),

final as (
    select
        market_date,
        symbol,
        volume,
        dense_rank() over (partition by market_date order by volume desc) as place,
        percent_rank() over (partition by market_date order by volume) as percentile,
        cast(
            volume / nullif(sum(volume) over (partition by market_date), 0) as decimal(18, 6)
        ) as share_of_day
    from prices
)

select * from final
