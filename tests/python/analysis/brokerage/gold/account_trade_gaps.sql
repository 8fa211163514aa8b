with trades as (
    select * from {{ ref('trades') }}
),

ordered as (
    select
        trade_id,
        account_id,
        traded_at,
        amount,
        row_number() over trades_of_account as trade_number,
        lag(traded_at) over trades_of_account as last_traded_at,
        lead(trade_id) over trades_of_account as next_trade_id,
        sum(amount) over (
            partition by account_id
            order by traded_at, trade_id
            rows between unbounded preceding and current row
        ) as running_amount
    from trades
    window trades_of_account as (partition by account_id order by traded_at, trade_id)
),

final as (
    select
        trade_id,
        account_id,
        traded_at,
        trade_number,
        last_traded_at,
        timestampdiff(hour, last_traded_at, traded_at) as hours_since_last,
        next_trade_id,
        amount,
        cast(running_amount as decimal(20, 2)) as running_amount
    from ordered
)

select * from final
