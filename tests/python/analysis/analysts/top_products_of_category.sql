select p.category, p.name, sum(i.quantity) as sold
from order_items i
join products p using (product_id)
group by p.category, p.name
qualify rank() over (partition by p.category order by sum(i.quantity) desc) <= 3
