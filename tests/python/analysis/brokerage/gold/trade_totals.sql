with trades as (
    select * from {{ ref('fact_trades') }}
),

final as (
    select
        count(*) as trades,
        count(distinct account_id) as account_count,
        cast(sum(amount) as decimal(28, 2)) as amount,
        cast(sum(commission) as decimal(28, 2)) as commission,
        max(traded_at) as last_traded_at
    from trades
)

select * from final
