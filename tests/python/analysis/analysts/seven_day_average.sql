with daily as (
    select cast(ordered_at as date) as day, sum(total) as revenue
    from orders
    group by 1
)

select
    day,
    revenue,
    avg(revenue) over (order by day rows between 6 preceding and current row) as seven_day_average
from daily
