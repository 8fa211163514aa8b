with accounts as (
    select * from {{ ref('dim_account') }}
),

brokers as (
    select * from {{ ref('dim_broker') }}
),

balances as (
    select * from {{ ref('fact_cash_balances') }}
),

last_balances as (
    select
        account_id,
        max_by(balance, transaction_date) as balance,
        max(transaction_date) as last_transaction_on
    from balances
    group by account_id
),

final as (
    select
        accounts.account_id,
        accounts.account_key,
        accounts.customer_id,
        accounts.account_name,
        accounts.status,
        brokers.broker_id,
        brokers.last_name as broker_last_name,
        brokers.branch,
        coalesce(last_balances.balance, 0) as balance,
        last_balances.last_transaction_on
    from accounts
    left join brokers
        on accounts.broker_id = brokers.broker_id
    left join last_balances
        on accounts.account_id = last_balances.account_id
    where accounts.is_current
)

select * from final
