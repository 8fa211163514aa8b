{{ config(incremental_strategy='affected_keys', unique_key='tag') }}

with marks as (
    select * from {{ affected(source('inputs', 'marks'), key='tag') }}
),

final as (
    select
        tag,
        count(*) as mark_count,
        sum(val) as total
    from marks
    group by tag
)

select * from final
