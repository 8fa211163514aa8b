select order_id, product_id, measure, value
from (select order_id, product_id, price, discount from order_items)
unpivot (value for measure in (price, discount))
