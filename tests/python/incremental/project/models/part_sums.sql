{{ config(incremental_strategy='signed_sum', unique_key='grp', partition_by='grp') }}

with items as (
    select * from {{ signed(source('inputs', 'items')) }}
),

final as (
    select
        grp,
        sum(_weight) as item_count,
        sum(cast(val as bigint) * _weight) as total
    from items
    where grp is not null
    group by grp
)

select * from final
