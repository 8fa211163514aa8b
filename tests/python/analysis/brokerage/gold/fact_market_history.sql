with prices as (
    select * from {{ ref('daily_market') }}
),

securities as (
    select * from {{ ref('dim_security') }}
),

financials as (
    select * from {{ ref('financials') }}
),

final as (
    select
        prices.symbol,
        prices.market_date,
        securities.security_key,
        securities.company_id,
        prices.close,
        prices.high,
        prices.low,
        prices.volume,
        prices.year_high,
        prices.year_high_date,
        prices.year_low,
        prices.year_low_date,
        cast(prices.close / nullif(financials.trailing_eps, 0) as decimal(18, 4)) as price_to_earnings,
        cast(securities.dividend / nullif(prices.close, 0) as decimal(18, 6)) as yield,
        prices.close * securities.shares_outstanding as capitalisation
    from prices
    inner join securities
        on
            prices.symbol = securities.symbol
            and prices.market_date >= securities.valid_from
            and prices.market_date < securities.valid_to
    left join financials
        on
            securities.company_id = financials.company_id
            and year(prices.market_date) = financials.fiscal_year
            and quarter(prices.market_date) = financials.fiscal_quarter
)

select * from final
