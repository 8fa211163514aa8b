select customer_id, ordered_at as happened_at, 'order' as kind, cast(order_id as string) as reference from orders
union all
select customer_id, opened_at, 'ticket', cast(ticket_id as string) from tickets
union all
select customer_id, changed_at, 'change', tier from customer_changes
