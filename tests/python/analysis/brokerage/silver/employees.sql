with employees as (
    select * from {{ source('brokerage', 'employee') }}
),

final as (
    select
        employees.employee_id,
        employees.first_name,
        employees.last_name,
        employees.job_code,
        employees.job_code = 314 as is_broker,
        employees.branch,
        employees.office,
        employees.phone,
        employees.manager_id,
        managers.first_name as manager_first_name,
        managers.last_name as manager_last_name
    from employees
    left join employees as managers
        on employees.manager_id = managers.employee_id
)

select * from final
