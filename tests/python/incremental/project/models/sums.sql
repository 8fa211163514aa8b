{{ config(
    incremental_strategy='signed_sum',
    unique_key='id',
    derived={'average': 'total / events'},
) }}

with events as (
    select * from {{ signed(source('inputs', 'events')) }}
),

final as (
    select
        id,
        sum(_weight) as events,
        sum(cast(val as bigint) * _weight) as total,
        sum(cast(val / 4 as decimal(9, 2)) * _weight) as quarters
    from events
    where moment >= 0 or moment is null
    group by id
)

select * from final
