with trades as (
    select * from {{ ref('trades') }}
),

lifecycles as (
    select * from {{ ref('trade_lifecycles') }}
),

final as (
    select
        trades.trade_id,
        trades.trade_type,
        trades.is_sell,
        trades.is_market,
        trades.payment,
        trades.status,
        lifecycles.created_at,
        lifecycles.submitted_at,
        lifecycles.closed_at,
        coalesce(lifecycles.last_status <> trades.status, true) as is_out_of_step,
        timestampdiff(
            second, coalesce(lifecycles.submitted_at, lifecycles.created_at), lifecycles.closed_at
        ) as seconds_to_close
    from trades
    left join lifecycles
        on trades.trade_id = lifecycles.trade_id
)

select * from final
