{{ config(incremental_strategy='signed_sum', unique_key='moment') }}

with latest as (
    select * from {{ signed(ref('latest')) }}
),

final as (
    select
        moment,
        sum(_weight) as ids,
        sum(cast(val as bigint) * _weight) as total
    from latest
    group by moment
)

select * from final
