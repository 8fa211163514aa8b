with events as (
    select * from {{ source('brokerage', 'trade_event') }}
),

trades as (
    select * from {{ ref('trades') }}
),

statuses as (
    select * from {{ ref('status_types') }}
),

final as (
    select
        events.trade_id,
        events.status_id,
        statuses.name as status,
        events.happened_at,
        lag(events.status_id) over (
            partition by events.trade_id
            order by events.happened_at, events.status_id
        ) as status_before,
        trades.account_id,
        trades.symbol,
        trades.trade_type
    from events
    inner join trades
        on events.trade_id = trades.trade_id
    left join statuses
        on events.status_id = statuses.status_id
)

select * from final
