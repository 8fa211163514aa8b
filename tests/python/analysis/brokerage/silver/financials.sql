with reports as (
    select * from {{ source('brokerage', 'financial_report') }}
),

final as (
    select
        company_id,
        fiscal_year,
        fiscal_quarter,
        quarter_begins_on,
        posted_on,
        revenue,
        earnings,
        eps,
        cast(earnings / nullif(revenue, 0) as decimal(18, 4)) as margin,
        cast(sum(eps) over trailing_year as decimal(18, 2)) as trailing_eps,
        count(*) over trailing_year as trailing_quarters,
        lag(revenue, 4) over quarters as revenue_year_before
    from reports
    window
        quarters as (partition by company_id order by fiscal_year, fiscal_quarter),
        trailing_year as (
            partition by company_id
            order by fiscal_year, fiscal_quarter
            rows between 3 preceding and current row
        )
)

select * from final
