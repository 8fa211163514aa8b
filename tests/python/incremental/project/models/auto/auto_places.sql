with per_id as (
    select
        id,
        sum(val) as total
    from {{ source('inputs', 'events') }}
    group by id
)

select
    per_id.total,
    items.val,
    rank() over (order by per_id.total desc nulls last) as place
from per_id
left join {{ source('inputs', 'items') }} as items on per_id.id = items.id
where per_id.total >= (select min(total) from per_id)
