with trades as (
    select * from {{ ref('trades') }}
),

transactions as (
    select * from {{ ref('cash_transactions') }}
),

trade_months as (
    select
        account_id,
        date_trunc('month', traded_at) as activity_month,
        count(*) as trades,
        cast(sum(amount) as decimal(20, 2)) as traded_amount
    from trades
    group by
        account_id,
        date_trunc('month', traded_at)
),

cash_months as (
    select
        account_id,
        date_trunc('month', happened_at) as activity_month,
        count(*) as transactions,
        cast(sum(amount) as decimal(20, 2)) as cash_amount
    from transactions
    group by
        account_id,
        date_trunc('month', happened_at)
),

final as (
    select
        coalesce(trade_months.account_id, cash_months.account_id) as account_id,
        coalesce(trade_months.activity_month, cash_months.activity_month) as activity_month,
        coalesce(trade_months.trades, 0) as trades,
        trade_months.traded_amount,
        coalesce(cash_months.transactions, 0) as transactions,
        cash_months.cash_amount
    from trade_months
    full join cash_months
        on
            trade_months.account_id = cash_months.account_id
            and trade_months.activity_month = cash_months.activity_month
)

select * from final
