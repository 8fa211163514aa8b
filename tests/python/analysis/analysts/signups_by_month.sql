with months as (
    select explode(sequence(date'2024-01-01', date'2024-12-01', interval 1 month)) as month_of
)

select m.month_of, count(c.customer_id) as signups
from months m
left join customers c on cast(date_trunc('month', c.signed_up_at) as date) = m.month_of
group by m.month_of
