select order_id, total as amount from orders where status <> 'cancelled'
except all
select order_id, amount from payments where status = 'ok'
