select
    n,
    count(*) as groups
from (
    select
        grp,
        count(*) as n
    from {{ source('inputs', 'items') }}
    group by grp
) as per_group
group by n
