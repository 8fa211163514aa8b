with filings as (
    select * from {{ source('brokerage', 'security_filing') }}
),

companies as (
    select * from {{ ref('company_versions') }}
),

statuses as (
    select * from {{ ref('status_types') }}
),

periods as (
    select
        *,
        lead(filed_at) over (partition by symbol order by filed_at, filing_id) as next_filed_at
    from filings
),

final as (
    select
        periods.filing_id as security_version_id,
        periods.symbol,
        periods.name,
        periods.issue_type,
        statuses.name as status,
        periods.exchange_id,
        periods.company_id,
        companies.company_version_id,
        companies.name as company_name,
        periods.shares_outstanding,
        periods.dividend,
        periods.filed_at as valid_from,
        coalesce(periods.next_filed_at, timestamp '9999-12-31 00:00:00') as valid_to,
        periods.next_filed_at is null as is_current
    from periods
    left join companies
        on
            periods.company_id = companies.company_id
            and periods.filed_at >= companies.valid_from
            and periods.filed_at < companies.valid_to
    left join statuses
        on periods.status_id = statuses.status_id
)

select * from final
