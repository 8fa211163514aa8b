select
    sum(item.val) as total,
    count(*) as n,
    max(people.name) as last_name
from {{ source('inputs', 'items') }} as item
inner join {{ source('inputs', 'people') }} as people on item.grp = people.grp
