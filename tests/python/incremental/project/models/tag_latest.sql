{{ config(incremental_strategy='change_feed', unique_key='tag', latest_by=['val', 'id']) }}

with marks as (
    select * from {{ changes(source('inputs', 'marks')) }}
),

final as (
    select
        tag,
        id,
        val
    from marks
)

select * from final
