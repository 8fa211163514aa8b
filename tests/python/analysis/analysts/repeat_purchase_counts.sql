select orders, count(*) as customers
from (select customer_id, count(*) as orders from orders group by customer_id)
group by orders
