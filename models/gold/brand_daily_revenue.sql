{{ config(
    incremental_strategy='signed_sum',
    unique_key=['brand', 'event_date'],
    cluster_by=['event_date'],
) }}

with events as (
    select * from {{ signed(ref('silver_click_events')) }}
),

final as (
    select
        brand,
        event_date,
        sum(_weight) as purchases,
        cast(sum(price * _weight) as decimal(28, 2)) as revenue
    from events
    where event_type = 'purchase'
    group by
        brand,
        event_date
)

select * from final
