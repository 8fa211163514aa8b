select o.order_id, o.customer_id, o.total
from orders o
where o.total > (select avg(x.total) from orders x where x.customer_id = o.customer_id)
