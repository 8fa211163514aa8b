{{ config(incremental_strategy='change_feed', unique_key='id', latest_by='moment', prune_by='note') }}

with events as (
    select * from {{ changes(source('inputs', 'events')) }}
),

final as (
    select
        id,
        moment,
        val,
        note
    from events
    where val is not null
)

select * from final
