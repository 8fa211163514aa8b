{{ config(
    incremental_strategy='affected_keys',
    unique_key=['account_id', 'transaction_date', 'currency'],
    cluster_by=['transaction_date', 'account_id'],
) }}

with transactions as (
    select *
    from {{ affected(
        ref('silver_financial_transactions'),
        key=['account_id', 'transaction_date'],
    ) }}
),

rates as (
    select * from {{ lookup(ref('exchange_rates')) }}
),

final as (
    select
        transactions.account_id,
        transactions.transaction_date,
        transactions.currency,
        count(*) as transactions,
        sum(transactions.amount) as amount,
        cast(sum(transactions.amount * rates.rate_to_eur) as decimal(38, 6)) as amount_eur
    from transactions
    left join rates
        on transactions.currency = rates.currency
    where transactions.transaction_type = 'debit'
    group by
        transactions.account_id,
        transactions.transaction_date,
        transactions.currency
)

select * from final
