with items as (
    select * from {{ source('inputs', 'items') }}
)

select
    grp,
    count(*) as n,
    sum(val) as total,
    max(val) as largest
from items
group by grp
