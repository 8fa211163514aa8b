{{ config(
    incremental_strategy='affected_keys',
    unique_key=['product_id', 'event_date'],
    cluster_by=['event_date', 'product_id'],
) }}

with events as (
    select *
    from {{ affected(ref('silver_click_events'), key=['product_id', 'event_date']) }}
),

categories as (
    select * from {{ lookup(ref('product_categories')) }}
),

visits as (
    select
        product_id,
        event_date,
        coalesce(session_id, click_event_id) as visit_id,
        event_type,
        category_code,
        brand,
        struct(occurred_at, click_event_id) as event_order
    from events
),

-- A step that a later one implies may be missing (one-click purchases, links to the cart), so a later step
-- counts for the earlier ones and the funnel never widens.
products as (
    select
        product_id,
        event_date,
        max_by(category_code, event_order) filter (where category_code is not null) as category_code,
        max_by(brand, event_order) filter (where brand is not null) as brand,
        count_if(event_type = 'view') as views,
        count(distinct visit_id) as visits,
        count(distinct visit_id) filter (where event_type in ('cart', 'purchase')) as visits_with_cart,
        count(distinct visit_id) filter (where event_type = 'purchase') as visits_with_purchase
    from visits
    group by
        product_id,
        event_date
),

final as (
    select
        products.product_id,
        products.event_date,
        products.category_code,
        categories.display_name as category,
        products.brand,
        products.views,
        products.visits,
        products.visits_with_cart,
        products.visits_with_purchase,
        cast(products.visits_with_cart / products.visits as decimal(9, 6)) as cart_rate,
        cast(products.visits_with_purchase / products.visits as decimal(9, 6)) as purchase_rate
    from products
    left join categories
        on products.category_code = categories.category_code
)

select * from final
