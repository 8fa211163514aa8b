with items as (
    select
        order_id,
        sum(quantity) as quantity,
        sum(quantity * price) as gross,
        sum(discount) as discount
    from order_items
    group by order_id
),

paid as (
    select order_id, sum(amount) as paid, max(paid_at) as last_paid_at
    from payments
    where status = 'ok'
    group by order_id
),

refunded as (
    select order_id, sum(amount) as refunded
    from refunds
    group by order_id
)

select
    o.order_id,
    o.customer_id,
    o.ordered_at,
    coalesce(i.quantity, 0) as quantity,
    coalesce(i.gross, 0) - coalesce(i.discount, 0) as net,
    coalesce(p.paid, 0) as paid,
    coalesce(r.refunded, 0) as refunded,
    p.last_paid_at
from orders o
left join items i on i.order_id = o.order_id
left join paid p on p.order_id = o.order_id
left join refunded r on r.order_id = o.order_id
