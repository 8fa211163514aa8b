{{ config(
    incremental_strategy='affected_keys',
    unique_key=['state', 'week_start'],
) }}

with county_days as (
    select *
    from {{ affected(ref('county_daily_cases'), key=['state', 'week_start']) }}
),

states as (
    select * from {{ lookup(ref('states')) }}
),

weeks as (
    select
        state,
        week_start,
        count(distinct county) as counties,
        count(distinct report_date) as days_reported,
        sum(new_cases) as new_cases,
        sum(case_correction) as case_correction,
        sum(new_deaths) as new_deaths,
        sum(death_correction) as death_correction
    from county_days
    group by
        state,
        week_start
),

final as (
    select
        weeks.state,
        weeks.week_start,
        states.region,
        weeks.counties,
        weeks.days_reported,
        weeks.new_cases,
        weeks.case_correction,
        weeks.new_deaths,
        weeks.death_correction,
        cast(
            weeks.new_cases * cast(100000 as decimal(6, 0)) / states.population as decimal(18, 2)
        ) as new_cases_per_100k
    from weeks
    left join states
        on weeks.state = states.state
)

select * from final
