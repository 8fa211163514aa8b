with financials as (
    select * from {{ ref('financials') }}
),

companies as (
    select * from {{ ref('company_versions') }}
),

of_companies as (
    select
        companies.industry,
        financials.fiscal_year,
        financials.fiscal_quarter,
        financials.company_id,
        financials.revenue,
        financials.earnings,
        financials.margin
    from financials
    inner join companies
        on
            financials.company_id = companies.company_id
            and financials.posted_on >= companies.valid_from
            and financials.posted_on < companies.valid_to
),

final as (
    select
        industry,
        fiscal_year,
        fiscal_quarter,
        count(distinct company_id) as companies,
        cast(sum(revenue) as decimal(20, 2)) as revenue,
        cast(sum(earnings) as decimal(20, 2)) as earnings,
        max(margin) as best_margin,
        max_by(company_id, struct(margin, company_id)) as best_company_id
    from of_companies
    group by
        industry,
        fiscal_year,
        fiscal_quarter
)

select * from final
