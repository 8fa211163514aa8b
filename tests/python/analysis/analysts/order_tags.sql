select tag, count(*) as orders, sum(total) as revenue
from (select order_id, total, explode(tags) as tag from orders)
group by tag
