from orders
|> where total > 100
|> aggregate count(*) as orders, sum(total) as revenue group by channel
|> order by revenue desc
