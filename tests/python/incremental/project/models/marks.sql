{{ config(incremental_strategy='change_feed', unique_key='id', cluster_by=['tag', 'moment']) }}

with marks as (
    select * from {{ changes(source('inputs', 'marks')) }}
),

final as (
    select
        id,
        tag,
        code,
        moment,
        val
    from marks
)

select * from final
