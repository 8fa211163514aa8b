{{ config(
    incremental_strategy='affected_keys',
    unique_key=['state', 'county', 'report_date'],
    cluster_by=['state', 'report_date'],
) }}

with reports as (
    select *
    from {{ affected(ref('silver_county_cases'), key=['state', 'county']) }}
),

previous as (
    select
        state,
        county,
        report_date,
        fips,
        cases,
        deaths,
        lag(report_date) over county_reports as previous_report_date,
        min(report_date) over county_reports as first_report_date,
        cases - coalesce(lag(cases) ignore nulls over county_reports, 0) as case_change,
        deaths - coalesce(lag(deaths) ignore nulls over county_reports, 0) as death_change
    from reports
    window county_reports as (partition by state, county order by report_date)
),

-- Counts are cumulative and are sometimes corrected downwards. A decrease is not a negative number of new cases: it
-- retracts cases of an unknown earlier day. It has its own column, so that both together add up to the count.
differences as (
    select
        state,
        county,
        report_date,
        fips,
        cases,
        deaths,
        first_report_date,
        datediff(report_date, previous_report_date) as days_since_previous_report,
        greatest(case_change, 0) as new_cases,
        least(case_change, 0) as case_correction,
        if(death_change is null, null, greatest(death_change, 0)) as new_deaths,
        if(death_change is null, null, least(death_change, 0)) as death_correction
    from previous
),

averaged as (
    select
        state,
        county,
        report_date,
        fips,
        cases,
        deaths,
        days_since_previous_report,
        new_cases,
        case_correction,
        new_deaths,
        death_correction,
        sum(new_cases) over last_seven_days as new_cases_7_days,
        least(datediff(report_date, first_report_date) + 1, 7) as days_averaged
    from differences
    window last_seven_days as (
        partition by state, county
        order by report_date
        range between interval 6 days preceding and current row
    )
),

final as (
    select
        state,
        county,
        report_date,
        to_date(date_trunc('week', report_date)) as week_start,
        fips,
        cases,
        deaths,
        new_cases,
        new_deaths,
        cast(
            cast(new_cases_7_days as decimal(18, 0)) / days_averaged as decimal(18, 2)
        ) as new_cases_7_day_mean,
        case_correction,
        death_correction,
        case_correction < 0 or coalesce(death_correction, 0) < 0 as has_correction,
        days_since_previous_report
    from averaged
)

select * from final
