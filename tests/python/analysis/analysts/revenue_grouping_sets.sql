select
    p.category,
    p.brand,
    o.channel,
    grouping(p.category) as is_all_categories,
    sum(i.quantity) as quantity
from order_items i
join orders o on o.order_id = i.order_id
join products p on p.product_id = i.product_id
group by grouping sets ((p.category, p.brand), (p.category), (o.channel), ())
