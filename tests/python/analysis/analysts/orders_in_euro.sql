select
    o.order_id,
    o.customer_id,
    o.total,
    o.currency,
    r.rate,
    cast(o.total * r.rate as decimal(12, 2)) as total_eur
from orders o
left join exchange_rates r
    on r.currency = o.currency
    and cast(o.ordered_at as date) >= r.valid_from
    and cast(o.ordered_at as date) < r.valid_to
