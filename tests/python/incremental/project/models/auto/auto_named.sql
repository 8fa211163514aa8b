{{ config(unique_key='id') }}
with items as (
    select * from {{ source('inputs', 'items') }}
),

people as (
    select
        grp as label,
        name
    from {{ source('inputs', 'people') }}
)

select
    items.id,
    items.val,
    people.name
from items
left join people on items.grp = people.label
