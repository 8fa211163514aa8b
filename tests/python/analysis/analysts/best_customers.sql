select customer_id, count(*) as orders, sum(total) as revenue
from orders
group by customer_id
order by revenue desc
limit 10
