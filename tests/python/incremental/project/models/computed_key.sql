{{ config(incremental_strategy='change_feed', unique_key=['upper_grp', 'tens']) }}

with items as (
    select * from {{ changes(source('inputs', 'items')) }}
),

final as (
    select
        upper(grp) as upper_grp,
        id * 10 as tens,
        val
    from items
    where val is not null
)

select * from final
