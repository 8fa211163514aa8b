select
    c.customer_id,
    c.country,
    count(distinct o.order_id) as orders,
    coalesce(sum(o.total), 0) as revenue,
    min(o.ordered_at) as first_order_at,
    max(o.ordered_at) as last_order_at
from customers c
left join orders o on o.customer_id = c.customer_id
group by c.customer_id, c.country
