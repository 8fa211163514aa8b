with events as (
    select * from {{ ref('trade_events') }}
),

final as (
    select
        trade_id,
        min(happened_at) as created_at,
        min(case when status_id = 'SBMT' then happened_at end) as submitted_at,
        max(case when status_id in ('CMPT', 'CNCL') then happened_at end) as closed_at,
        max_by(status, struct(happened_at, status_id)) as last_status,
        count(*) as events,
        timestampdiff(second, min(happened_at), max(happened_at)) as seconds
    from events
    group by trade_id
)

select * from final
