select s.status, s.label, count(o.order_id) as orders, sum(o.total) as revenue
from (values ('new', 'New'), ('paid', 'Paid'), ('sent', 'Shipped'), ('cancelled', 'Cancelled')) as s(status, label)
left join orders o on o.status = s.status
group by s.status, s.label
