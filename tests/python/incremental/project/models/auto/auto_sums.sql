select
    sum(items.val) as total,
    count(*) as n,
    max(people.name) as last_name
from {{ source('inputs', 'items') }} as items
inner join {{ source('inputs', 'people') }} as people on items.grp = people.grp
