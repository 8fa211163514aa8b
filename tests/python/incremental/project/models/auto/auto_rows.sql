{{ config(unique_key='id') }}
select
    items.id,
    upper(items.grp) as grp,
    items.val * 2 as twice
from {{ source('inputs', 'items') }}
where items.val < 50
