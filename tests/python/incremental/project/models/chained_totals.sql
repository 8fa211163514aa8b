{{ config(incremental_strategy='affected_keys', unique_key='grp') }}

with linear as (
    select * from {{ affected(ref('linear'), key='grp') }}
),

final as (
    select
        grp,
        count(*) as item_count,
        sum(twice) as total
    from linear
    group by grp
)

select * from final
