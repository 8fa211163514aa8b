select a.product_id, b.product_id as other_product_id, count(distinct a.order_id) as orders
from order_items a
join order_items b on a.order_id = b.order_id and a.product_id < b.product_id
group by a.product_id, b.product_id
having count(distinct a.order_id) > 1
