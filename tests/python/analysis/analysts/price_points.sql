select
    struct(p.category, p.brand) as line,
    min(i.price) as lowest,
    max(i.price) as highest
from order_items i
join products p on p.product_id = i.product_id
group by struct(p.category, p.brand)
