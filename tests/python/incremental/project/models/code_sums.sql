{{ config(incremental_strategy='signed_sum', unique_key='code') }}

with marks as (
    select * from {{ signed(source('inputs', 'marks')) }}
),

final as (
    select
        code,
        sum(_weight) as mark_count,
        sum(cast(val as bigint) * _weight) as total
    from marks
    group by code
)

select * from final
