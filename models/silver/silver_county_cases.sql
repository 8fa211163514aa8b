{{ config(
    incremental_strategy='change_feed',
    unique_key=['report_date', 'county', 'state'],
    latest_by=['ingested_at'],
    cluster_by=['report_date'],
) }}

with records as (
    select * from {{ changes(source('bronze', 'county_cases')) }}
),

final as (
    select
        date as report_date,
        county,
        state,
        lpad(cast(fips as string), 5, '0') as fips,
        county = 'Unknown' as is_unallocated,
        cases,
        deaths,
        _ingested_at as ingested_at
    from records
)

select * from final
