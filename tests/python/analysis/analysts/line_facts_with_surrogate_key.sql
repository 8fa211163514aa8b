select
    md5(concat_ws('||', i.order_id, i.product_id)) as line_key,
    i.order_id,
    i.product_id,
    o.customer_id,
    sum(i.quantity) as quantity,
    sum(i.quantity * i.price - i.discount) as net
from order_items i
join orders o on o.order_id = i.order_id
group by 1, 2, 3, 4
