select
    p.category,
    sum(i.quantity * i.price) as revenue,
    sum(i.quantity * i.price) / sum(sum(i.quantity * i.price)) over () as share
from order_items i
join products p on p.product_id = i.product_id
group by p.category
