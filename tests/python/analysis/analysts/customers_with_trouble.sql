select c.customer_id, c.name, c.country
from customers c
where exists (
    select 1
    from tickets t
    where t.customer_id = c.customer_id and t.priority = 'high'
        or t.customer_id = c.referrer_id
)
