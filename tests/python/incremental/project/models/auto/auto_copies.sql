select
    items.grp,
    items.val
from {{ source('inputs', 'items') }}
