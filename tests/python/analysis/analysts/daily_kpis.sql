select
    cast(ordered_at as date) as day,
    count(*) as orders,
    count(distinct customer_id) as customers,
    sum(total) as revenue,
    avg(total) as average_order,
    sum(case when coupon is not null then 1 else 0 end) as with_coupon
from orders
where status <> 'cancelled'
group by cast(ordered_at as date)
