with customers as (
    select * from {{ ref('dim_customer') }}
),

accounts as (
    select * from {{ ref('account_versions') }}
),

account_counts as (
    select
        customer_id,
        count(*) as account_count,
        min(valid_from) as last_change_at
    from accounts
    where is_current
    group by customer_id
),

final as (
    select
        customers.customer_id,
        customers.customer_key,
        customers.status,
        customers.last_name,
        customers.first_name,
        customers.tier,
        customers.city,
        customers.nameplate,
        coalesce(account_counts.account_count, 0) as account_count,
        account_counts.last_change_at
    from customers
    left join account_counts
        on customers.customer_id = account_counts.customer_id
    where customers.is_current
)

select * from final
