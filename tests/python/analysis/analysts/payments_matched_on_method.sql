select p.payment_id, p.amount, r.reason, r.amount as refunded
from payments p
left join refunds r
    on p.order_id = r.order_id
    and (p.method = r.reason or (p.method is null and r.reason is null))
