with transactions as (
    select * from {{ source('brokerage', 'cash_transaction') }}
),

accounts as (
    select * from {{ ref('account_versions') }}
),

final as (
    select
        transactions.account_id,
        accounts.customer_id,
        transactions.happened_at,
        cast(transactions.happened_at as date) as transaction_date,
        transactions.amount,
        trim(transactions.description) as description
    from transactions
    left join accounts
        on
            transactions.account_id = accounts.account_id
            and transactions.happened_at >= accounts.valid_from
            and transactions.happened_at < accounts.valid_to
)

select * from final
