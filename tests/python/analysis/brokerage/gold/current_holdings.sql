with changes as (
    select * from {{ ref('holding_changes') }}
),

ranked as (
    select
        *,
        row_number() over (
            partition by account_id, symbol, opening_trade_id
            order by traded_at desc, trade_id desc
        ) as place
    from changes
),

final as (
    select
        account_id,
        symbol,
        sum(quantity_after) as quantity,
        count(*) as lots,
        cast(sum(quantity_after * trade_price) as decimal(20, 2)) as book_value,
        max(traded_at) as last_traded_at
    from ranked
    where
        place = 1
        and quantity_after <> 0
    group by
        account_id,
        symbol
)

select * from final
