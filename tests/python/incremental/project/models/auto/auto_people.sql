select
    people.name,
    count(*) as n,
    sum(items.val) as total
from {{ source('inputs', 'items') }}
inner join {{ source('inputs', 'people') }} on items.grp = people.grp
group by people.name
