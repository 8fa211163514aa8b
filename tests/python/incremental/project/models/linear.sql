{{ config(incremental_strategy='change_feed', unique_key='id', cluster_by=['grp']) }}

with items as (
    select * from {{ changes(source('inputs', 'items')) }}
),

rates as (
    select * from {{ lookup(source('inputs', 'rates')) }}
),

final as (
    select
        items.id,
        items.grp,
        items.val * 2 as twice,
        rates.rate
    from items
    left join rates
        on items.grp = rates.grp
    where items.val < 50
)

select * from final
