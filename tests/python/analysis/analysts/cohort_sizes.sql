with firsts as (
    select customer_id, min(cast(date_trunc('month', ordered_at) as date)) as cohort
    from orders
    group by customer_id
)

select cohort, count(*) as customers
from firsts
group by cohort
