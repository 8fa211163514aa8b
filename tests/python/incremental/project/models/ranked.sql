{{ config(incremental_strategy='affected_keys', unique_key=['id', 'place']) }}

with events as (
    select * from {{ affected(source('inputs', 'events'), key='id') }}
),

final as (
    select
        id,
        row_number() over (partition by id order by moment, val, note) as place,
        val,
        val - lag(val) over (partition by id order by moment, val, note) as step
    from events
)

select * from final
