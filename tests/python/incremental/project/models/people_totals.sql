{{ config(incremental_strategy='affected_keys', unique_key='grp') }}

with items as (
    select * from {{ affected(source('inputs', 'items'), key='grp') }}
),

people as (
    select * from {{ affected(source('inputs', 'people'), key='grp') }}
),

final as (
    select
        people.grp,
        people.name,
        count(items.id) as item_count,
        sum(items.val) as total
    from people
    inner join items
        on people.grp = items.grp
    group by people.grp, people.name
)

select * from final
