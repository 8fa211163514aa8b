{{ config(incremental_strategy='affected_keys', unique_key='moment') }}

with marks as (
    select * from {{ affected(source('inputs', 'marks'), key='moment') }}
),

final as (
    select
        moment,
        count(*) as mark_count,
        sum(val) as total
    from marks
    group by moment
)

select * from final
