{{ config(
    incremental_strategy='affected_keys',
    unique_key='session_id',
    cluster_by=['session_date'],
) }}

with events as (
    select *
    from {{ affected(ref('silver_click_events'), key='session_id') }}
),

totals as (
    select
        session_id,
        -- A shared browser may have several users in one session: the session belongs to the first of them.
        min_by(user_id, struct(occurred_at, click_event_id)) as user_id,
        min_by(product_id, struct(occurred_at, click_event_id)) as entry_product_id,
        min(occurred_at) as started_at,
        max(occurred_at) as ended_at,
        count(*) as events,
        count(distinct product_id) as products,
        count_if(event_type = 'view') as views,
        count_if(event_type = 'cart') as carts,
        count_if(event_type = 'purchase') as purchases,
        cast(sum(
            case when event_type = 'purchase' then price else 0 end
        ) as decimal(28, 2)) as revenue
    from events
    where session_id is not null
    group by session_id
),

final as (
    select
        session_id,
        user_id,
        to_date(started_at) as session_date,
        started_at,
        ended_at,
        timestampdiff(second, started_at, ended_at) as duration_seconds,
        entry_product_id,
        events,
        products,
        views,
        carts,
        purchases,
        purchases > 0 as has_purchase,
        revenue
    from totals
)

select * from final
