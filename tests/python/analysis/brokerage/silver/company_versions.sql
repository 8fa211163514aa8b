with filings as (
    select * from {{ source('brokerage', 'company_filing') }}
),

industries as (
    select * from {{ ref('industries') }}
),

statuses as (
    select * from {{ ref('status_types') }}
),

periods as (
    select
        *,
        lead(filed_at) over (partition by company_id order by filed_at, filing_id) as next_filed_at
    from filings
),

final as (
    select
        periods.filing_id as company_version_id,
        periods.company_id,
        periods.name,
        statuses.name as status,
        industries.name as industry,
        industries.sector,
        periods.rating,
        coalesce(substring(periods.rating, 1, 1) not in ('A', 'B'), true) as is_low_grade,
        periods.ceo,
        periods.founded_on,
        periods.filed_at as valid_from,
        coalesce(periods.next_filed_at, timestamp '9999-12-31 00:00:00') as valid_to,
        periods.next_filed_at is null as is_current
    from periods
    left join industries
        on periods.industry_id = industries.industry_id
    left join statuses
        on periods.status_id = statuses.status_id
)

select * from final
