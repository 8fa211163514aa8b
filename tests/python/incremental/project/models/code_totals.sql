{{ config(incremental_strategy='affected_keys', unique_key='code') }}

with marks as (
    select * from {{ affected(source('inputs', 'marks'), key='code') }}
),

final as (
    select
        code,
        count(*) as mark_count,
        sum(val) as total
    from marks
    group by code
)

select * from final
