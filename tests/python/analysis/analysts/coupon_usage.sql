select
    o.order_id,
    o.coupon,
    t.target,
    o.total
from orders o
left join targets t on coalesce(o.channel, '') = coalesce(t.channel, '')
