-- The spending in each currency equals the debits of silver: none lost, none repeated.
with spent as (
    select
        currency,
        sum(transactions) as transactions,
        sum(amount) as amount
    from {{ ref('account_daily_spend') }}
    group by currency
),

debited as (
    select
        currency,
        count(*) as transactions,
        sum(amount) as amount
    from {{ ref('silver_financial_transactions') }}
    where transaction_type = 'debit'
    group by currency
)

select
    coalesce(spent.currency, debited.currency) as currency,
    spent.transactions as transactions_spent,
    debited.transactions as transactions_debited,
    spent.amount as amount_spent,
    debited.amount as amount_debited
from spent
full outer join debited
    on spent.currency = debited.currency
where
    not spent.transactions <=> debited.transactions
    or not spent.amount <=> debited.amount
