select o.customer_id, mode(p.method) as usual_method, count(*) as payments
from payments p
join orders o on o.order_id = p.order_id
group by o.customer_id
