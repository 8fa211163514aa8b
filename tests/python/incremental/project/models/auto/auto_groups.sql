select grp from {{ source('inputs', 'items') }}
union
select grp from {{ source('inputs', 'people') }}
