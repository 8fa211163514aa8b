select
    c.day,
    c.is_weekend,
    count(o.order_id) as orders,
    coalesce(sum(o.total), 0) as revenue
from calendar c
left join orders o on cast(o.ordered_at as date) = c.day and o.status <> 'cancelled'
group by c.day, c.is_weekend
