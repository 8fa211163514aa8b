select
    customer_id,
    order_id,
    ordered_at,
    total,
    sum(total) over (partition by customer_id order by ordered_at rows between unbounded preceding and current row) as running_total
from orders
