select
    grp,
    n,
    sum(n) over () as all_rows
from {{ ref('auto_totals') }}
