select order_id, product_id, quantity, price
from order_items
where (order_id, price) in (select order_id, max(price) from order_items group by order_id)
