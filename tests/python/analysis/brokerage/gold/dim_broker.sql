with employees as (
    select * from {{ ref('employees') }}
),

accounts as (
    select * from {{ ref('account_versions') }}
),

account_counts as (
    select
        broker_id,
        count(distinct account_id) as account_count,
        count(distinct customer_id) as customers
    from accounts
    where
        is_current
        and status = 'active'
    group by broker_id
),

final as (
    select
        employees.employee_id as broker_id,
        employees.first_name,
        employees.last_name,
        employees.branch,
        employees.office,
        employees.manager_id,
        employees.manager_last_name,
        coalesce(account_counts.account_count, 0) as account_count,
        coalesce(account_counts.customers, 0) as customers
    from employees
    left join account_counts
        on employees.employee_id = account_counts.broker_id
    where employees.is_broker
)

select * from final
