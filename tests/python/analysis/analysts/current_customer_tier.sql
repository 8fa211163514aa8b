select customer_id, tier, city, changed_at
from customer_changes
qualify row_number() over (partition by customer_id order by changed_at desc) = 1
