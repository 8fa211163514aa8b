with customers as (
    select * from {{ ref('current_customers') }}
),

accounts as (
    select * from {{ ref('account_versions') }}
),

trades as (
    select * from {{ ref('trades') }}
),

trading_accounts as (
    select distinct accounts.customer_id
    from accounts
    inner join trades
        on accounts.account_id = trades.account_id
),

final as (
    select
        customers.customer_id,
        customers.last_name,
        customers.tier,
        customers.account_count
    from customers
    left anti join trading_accounts
        on customers.customer_id = trading_accounts.customer_id
)

select * from final
