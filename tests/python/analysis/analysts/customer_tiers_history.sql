select
    customer_id,
    tier,
    city,
    changed_at as valid_from,
    lead(changed_at) over (partition by customer_id order by changed_at) as valid_to,
    lead(changed_at) over (partition by customer_id order by changed_at) is null as is_current
from customer_changes
