with months as (
    select distinct month_of from calendar
),

spine as (
    select c.customer_id, m.month_of
    from customers c
    cross join months m
    where m.month_of >= cast(date_trunc('month', c.signed_up_at) as date)
),

monthly as (
    select
        customer_id,
        cast(date_trunc('month', ordered_at) as date) as month_of,
        sum(total) as spend
    from orders
    group by 1, 2
)

select s.customer_id, s.month_of, coalesce(m.spend, 0) as spend
from spine s
left join monthly m on m.customer_id = s.customer_id and m.month_of = s.month_of
