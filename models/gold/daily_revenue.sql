{{ config(
    unique_key=['order_date', 'category'],
    cluster_by=['order_date'],
) }}

with orders as (
    select * from {{ ref('silver_orders_current') }}
    where status <> 'cancelled'
),

products as (
    select * from {{ ref('silver_products_current') }}
),

final as (
    select
        orders.order_date,
        products.category,
        count(*) as orders,
        sum(orders.quantity) as pieces,
        cast(sum(orders.amount) as decimal(28, 2)) as revenue
    from orders
    left join products
        on orders.product_id = products.product_id
    group by
        orders.order_date,
        products.category
)

select * from final
