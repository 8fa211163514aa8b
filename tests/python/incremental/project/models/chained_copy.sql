{{ config(incremental_strategy='change_feed', unique_key=['grp', 'is_large']) }}

with totals as (
    select * from {{ changes(ref('totals')) }}
),

final as (
    select
        grp,
        is_large,
        total
    from totals
    where item_count > 1
)

select * from final
