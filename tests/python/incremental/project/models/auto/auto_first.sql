with places as (
    select
        id,
        val,
        row_number() over (partition by id order by moment, val, note) as place
    from {{ source('inputs', 'events') }}
)

select
    id,
    val
from places
where place = 1
