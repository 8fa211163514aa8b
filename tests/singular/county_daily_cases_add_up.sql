-- New cases and corrections of a county add up to its last count.
select
    state,
    county,
    sum(new_cases) as new_cases,
    sum(case_correction) as case_correction,
    max_by(cases, report_date) as cases
from {{ ref('county_daily_cases') }}
group by
    state,
    county
having sum(new_cases) + sum(case_correction) <> max_by(cases, report_date)
