with per_id as (
    select
        id,
        sum(val) as total
    from {{ source('inputs', 'events') }}
    group by id
)

select
    per_id.total,
    item.val,
    rank() over (order by per_id.total desc nulls last) as place
from per_id
left join {{ source('inputs', 'items') }} as item on per_id.id = item.id
where per_id.total >= (select min(any_id.total) from per_id as any_id)
