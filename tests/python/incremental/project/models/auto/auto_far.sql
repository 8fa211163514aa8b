select
    people.name,
    count(*) as n,
    sum(events.val) as total
from
    {{ source('inputs', 'events') }},
    {{ source('inputs', 'people') }},
    {{ source('inputs', 'items') }}
where people.grp = items.grp and items.id = events.id
group by people.name
