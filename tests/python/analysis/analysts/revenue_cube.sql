select country, segment, channel, count(*) as orders, sum(total) as revenue
from orders o
join customers c on c.customer_id = o.customer_id
group by cube (country, segment, channel)
