with firsts as (
    select customer_id, min(cast(date_trunc('month', ordered_at) as date)) as cohort
    from orders
    where status <> 'cancelled'
    group by customer_id
)

select
    f.cohort,
    cast(months_between(date_trunc('month', o.ordered_at), f.cohort) as int) as month_number,
    count(distinct o.customer_id) as customers
from orders o
join firsts f on f.customer_id = o.customer_id
where o.status <> 'cancelled'
group by 1, 2
