select
    s.plan,
    date_format(s.ended_on, 'yyyy-MM') as month,
    count(*) as ended,
    sum(s.monthly_fee) as lost_fee
from subscriptions s
where s.ended_on is not null
group by s.plan, date_format(s.ended_on, 'yyyy-MM')
