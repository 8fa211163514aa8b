{{ config(materialized='view') }}
select
    grp,
    val
from {{ source('inputs', 'items') }}
where val is not null
