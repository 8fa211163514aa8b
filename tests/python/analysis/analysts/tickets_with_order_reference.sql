select t.ticket_id, t.priority, o.order_id, o.status
from tickets t
join orders o on t.assignee = o.order_id
