{{ config(incremental_strategy='affected_keys', unique_key=['grp', 'is_large']) }}

with items as (
    select * from {{ affected(source('inputs', 'items'), key='grp') }}
),

final as (
    select
        grp,
        val > 20 as is_large,
        count(*) as item_count,
        sum(val) as total,
        max(val) as largest
    from items
    group by grp, val > 20
)

select * from final
