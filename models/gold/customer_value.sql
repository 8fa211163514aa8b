{{ config(
    unique_key='customer_id',
    cluster_by=['customer_id'],
) }}

with customers as (
    select * from {{ ref('silver_customers_current') }}
),

orders as (
    select * from {{ ref('silver_orders_current') }}
    where status <> 'cancelled'
),

final as (
    select
        customers.customer_id,
        customers.country,
        customers.segment,
        count(orders.order_id) as orders,
        cast(coalesce(sum(orders.amount), 0) as decimal(28, 2)) as revenue,
        min(orders.order_date) as first_order_date,
        max(orders.order_date) as last_order_date
    from customers
    left join orders
        on customers.customer_id = orders.customer_id
    group by
        customers.customer_id,
        customers.country,
        customers.segment
)

select * from final
