with actual as (
    select
        cast(date_trunc('month', ordered_at) as date) as month_of,
        channel,
        sum(total) as revenue
    from orders
    where status in ('paid', 'sent')
    group by 1, 2
)

select
    coalesce(a.month_of, t.month_of) as month_of,
    coalesce(a.channel, t.channel) as channel,
    a.revenue,
    t.target,
    a.revenue - t.target as difference
from actual a
full outer join targets t on t.month_of = a.month_of and t.channel = a.channel
