select
    month_of,
    coalesce(web, 0) as web,
    coalesce(shop, 0) as shop,
    coalesce(web, 0) + coalesce(shop, 0) as together
from (
    select cast(date_trunc('month', ordered_at) as date) as month_of, channel, total from orders
)
pivot (sum(total) for channel in ('web' as web, 'shop' as shop))
