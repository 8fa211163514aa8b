select e.user_id, e.happened_at, e.page, p.product_id, p.category
from events e
join products p on e.page like concat('%/', p.sku, '%')
