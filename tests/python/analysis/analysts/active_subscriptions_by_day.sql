select
    c.day,
    count(s.subscription_id) as active,
    coalesce(sum(s.monthly_fee), 0) as monthly_recurring_revenue
from calendar c
left join subscriptions s
    on s.started_on <= c.day and (s.ended_on is null or s.ended_on > c.day)
group by c.day
