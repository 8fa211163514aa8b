with customers as (
    select * from {{ ref('customer_versions') }}
),

employees as (
    select * from {{ ref('employees') }}
),

prospects as (
    select * from {{ ref('prospects') }}
),

final as (
    select
        'customer' as contact_type,
        cast(customer_id as string) as contact_id,
        last_name,
        first_name,
        city
    from customers
    where is_current
    union all
    select
        'employee' as contact_type,
        cast(employee_id as string) as contact_id,
        last_name,
        first_name,
        branch as city
    from employees
    union all
    select
        'prospect' as contact_type,
        prospect_id as contact_id,
        last_name,
        first_name,
        city
    from prospects
)

select * from final
