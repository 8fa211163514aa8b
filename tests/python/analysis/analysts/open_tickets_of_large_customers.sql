select t.ticket_id, t.priority, t.opened_at, c.name, s.revenue
from tickets t
join customers c on c.customer_id = t.customer_id
join (select customer_id, sum(total) as revenue from orders group by customer_id) s
    on s.customer_id = c.customer_id
where t.closed_at is null and s.revenue > 1000
