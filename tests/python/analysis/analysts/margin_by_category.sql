select
    p.category,
    cast(date_trunc('month', o.ordered_at) as date) as month_of,
    sum(i.quantity * (i.price - p.cost)) as margin
from order_items i
join orders o on o.order_id = i.order_id
join products p on p.product_id = i.product_id
where o.status not in ('cancelled', 'returned')
group by 1, 2
