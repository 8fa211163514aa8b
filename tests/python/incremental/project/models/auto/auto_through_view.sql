select
    grp,
    val > 20 as is_high,
    count(*) as n
from {{ ref('high_or_low') }}
group by grp, val > 20
