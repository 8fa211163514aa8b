select
    order_id,
    total,
    total / (select sum(total) from orders where status = 'paid') as share
from orders
where status = 'paid'
