{{ config(
    incremental_strategy='change_feed',
    unique_key='transaction_id',
    prune_by=['transaction_date'],
    cluster_by=['transaction_date', 'account_id'],
) }}

with transactions as (
    select * from {{ changes(ref('silver_financial_transactions')) }}
),

rates as (
    select * from {{ lookup(ref('exchange_rates')) }}
),

final as (
    select
        transactions.transaction_id,
        transactions.transacted_at,
        transactions.transaction_date,
        transactions.account_id,
        transactions.merchant_id,
        transactions.transaction_type,
        coalesce(transactions.category, 'uncategorised') as category,
        transactions.amount,
        transactions.currency,
        cast(transactions.amount * rates.rate_to_eur as decimal(20, 4)) as amount_eur,
        transactions.ingested_at as last_updated
    from transactions
    left join rates
        on transactions.currency = rates.currency
)

select * from final
