select
    o.order_id,
    o.ordered_at,
    o.status,
    o.total,
    c.name as customer_name,
    c.country,
    c.segment
from orders o
left join customers c on c.customer_id = o.customer_id
