select a.subscription_id, b.subscription_id as other_id, a.customer_id
from subscriptions a
join subscriptions b
    on a.customer_id = b.customer_id
    and a.subscription_id < b.subscription_id
    and a.started_on < coalesce(b.ended_on, date'9999-12-31')
    and b.started_on < coalesce(a.ended_on, date'9999-12-31')
