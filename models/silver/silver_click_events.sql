{{ config(
    incremental_strategy='change_feed',
    unique_key='click_event_id',
    latest_by=['ingested_at'],
    prune_by=['event_date'],
    cluster_by=['event_date', 'product_id'],
) }}

with records as (
    select * from {{ changes(source('bronze', 'click_events')) }}
),

final as (
    select
        -- Events have no identifier: records with equal values in all of these columns are one event, sent twice.
        {{ surrogate_key([
            'event_time',
            'event_type',
            'product_id',
            'category_id',
            'category_code',
            'brand',
            'price',
            'user_id',
            'user_session',
        ]) }} as click_event_id,
        event_time as occurred_at,
        to_date(event_time) as event_date,
        lower(event_type) as event_type,
        product_id,
        category_id,
        category_code,
        lower(brand) as brand,
        price,
        user_id,
        user_session as session_id,
        _ingested_at as ingested_at
    from records
)

select * from final
