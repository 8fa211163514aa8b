select
    max(val) as largest,
    count(*) as n
from {{ source('inputs', 'items') }}
