select order_id, customer_id, ordered_at, total
from orders
order by ordered_at desc
limit 100
