{{ config(incremental_strategy='change_feed', unique_key='grp', latest_by=['val', 'id'], partition_by='grp') }}

with items as (
    select * from {{ changes(source('inputs', 'items')) }}
),

final as (
    select
        grp,
        id,
        val
    from items
    where grp is not null
)

select * from final
