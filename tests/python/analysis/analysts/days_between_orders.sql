select
    order_id,
    customer_id,
    ordered_at,
    datediff(ordered_at, lag(ordered_at) over (partition by customer_id order by ordered_at)) as days_since_last,
    lead(order_id) over (partition by customer_id order by ordered_at) as next_order_id
from orders
