select p.product_id, p.sku, p.name
from products p
left join order_items i on i.product_id = p.product_id
where i.product_id is null
