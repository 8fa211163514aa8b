{{ config(incremental_strategy='affected_keys', unique_key='grp', partition_by='grp') }}

with items as (
    select * from {{ affected(source('inputs', 'items'), key='grp') }}
),

final as (
    select
        grp,
        count(*) as item_count,
        sum(val) as total
    from items
    where grp is not null
    group by grp
)

select * from final
