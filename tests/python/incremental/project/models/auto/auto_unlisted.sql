select
    items.val % 3 as remainder,
    count(*) as n,
    sum(items.val) as total
from {{ source('inputs', 'items') }}
where items.grp not in (select people.grp from {{ source('inputs', 'people') }})
group by items.val % 3
