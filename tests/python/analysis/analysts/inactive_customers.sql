select customer_id, name, email
from customers
where customer_id not in (select customer_id from orders where customer_id is not null)
