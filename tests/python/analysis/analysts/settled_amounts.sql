select order_id, total as amount from orders
intersect all
select order_id, amount from payments where status = 'ok'
