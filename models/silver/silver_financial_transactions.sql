{{ config(
    incremental_strategy='change_feed',
    unique_key='transaction_id',
    latest_by=['transacted_at', 'ingested_at'],
    prune_by=['transaction_date'],
    cluster_by=['transaction_date', 'account_id'],
) }}

with records as (
    select * from {{ changes(source('bronze', 'financial_transactions')) }}
),

final as (
    select
        transaction_id,
        timestamp as transacted_at,
        transaction_date,
        account_id,
        merchant_id,
        lower(transaction_type) as transaction_type,
        lower(category) as category,
        amount,
        upper(currency) as currency,
        _ingested_at as ingested_at
    from records
)

select * from final
