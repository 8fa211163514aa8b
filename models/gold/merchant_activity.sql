{{ config(
    incremental_strategy='signed_sum',
    unique_key=['merchant_id', 'currency'],
) }}

with transactions as (
    select * from {{ signed(ref('silver_financial_transactions')) }}
),

final as (
    select
        merchant_id,
        currency,
        sum(_weight) as transactions,
        sum(case when transaction_type = 'debit' then _weight else 0 end) as debits,
        sum(case when transaction_type = 'credit' then _weight else 0 end) as credits,
        cast(sum(
            case when transaction_type = 'debit' then amount * _weight else 0 end
        ) as decimal(28, 2)) as debited_amount,
        cast(sum(
            case when transaction_type = 'credit' then amount * _weight else 0 end
        ) as decimal(28, 2)) as credited_amount
    from transactions
    where merchant_id is not null
    group by
        merchant_id,
        currency
)

select * from final
