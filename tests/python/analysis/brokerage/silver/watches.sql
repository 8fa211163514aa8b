with events as (
    select * from {{ ref('watch_events') }}
),

grouped as (
    select
        customer_id,
        symbol,
        min(happened_at) filter (where action = 'ACTV') as placed_at,
        max(happened_at) filter (where action = 'CNCL') as removed_at,
        count_if(action = 'ACTV') as placements
    from events
    group by
        customer_id,
        symbol
),

final as (
    select
        customer_id,
        symbol,
        placed_at,
        removed_at,
        placements,
        if(removed_at is null, 'active', 'removed') as status
    from grouped
)

select * from final
