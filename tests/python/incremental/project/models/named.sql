{{ config(incremental_strategy='affected_keys', unique_key='id') }}

with items as (
    select * from {{ affected(source('inputs', 'items'), key='id') }}
),

people as (
    select *
    from {{ affected(
        source('inputs', 'people'),
        key='id',
        via=source('inputs', 'items'),
        on='grp',
    ) }}
),

final as (
    select
        items.id,
        items.val,
        people.name
    from items
    left join people
        on items.grp = people.grp
)

select * from final
