{{ config(incremental_strategy='history', unique_key='id', on_gap='rebuild') }}
-- depends_on: {{ ref('tracked_anew') }}

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
