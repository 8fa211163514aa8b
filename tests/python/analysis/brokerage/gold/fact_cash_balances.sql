with transactions as (
    select * from {{ ref('cash_transactions') }}
),

days as (
    select
        account_id,
        transaction_date,
        max(customer_id) as customer_id,
        count(*) as transactions,
        cast(sum(amount) as decimal(18, 2)) as amount
    from transactions
    group by
        account_id,
        transaction_date
),

final as (
    select
        account_id,
        transaction_date,
        customer_id,
        transactions,
        amount,
        cast(
            sum(amount) over (
                partition by account_id
                order by transaction_date
                rows between unbounded preceding and current row
            ) as decimal(18, 2)
        ) as balance,
        datediff(
            transaction_date,
            lag(transaction_date) over (partition by account_id order by transaction_date)
        ) as days_since_last
    from days
)

select * from final
