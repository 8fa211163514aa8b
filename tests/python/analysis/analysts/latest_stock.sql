select product_id, warehouse, counted_on, on_hand
from stock
where (product_id, warehouse, counted_on) in (
    select product_id, warehouse, max(counted_on) from stock group by product_id, warehouse
)
