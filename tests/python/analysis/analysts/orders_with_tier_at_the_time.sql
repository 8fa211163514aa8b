with versions as (
    select
        customer_id,
        tier,
        changed_at as valid_from,
        coalesce(lead(changed_at) over (partition by customer_id order by changed_at), timestamp'9999-12-31') as valid_to
    from customer_changes
)

select o.order_id, o.customer_id, o.ordered_at, o.total, v.tier
from orders o
left join versions v
    on v.customer_id = o.customer_id
    and o.ordered_at >= v.valid_from
    and o.ordered_at < v.valid_to
