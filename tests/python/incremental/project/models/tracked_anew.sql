{{ config(incremental_strategy='history', unique_key='id', full_refresh=true) }}

with items as (
    select * from {{ images(source('inputs', 'items')) }}
),

final as (
    select
        id,
        grp,
        val,
        _image
    from items
    where val < 50
)

select * from final
