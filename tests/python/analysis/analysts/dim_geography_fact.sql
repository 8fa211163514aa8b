with dim as (
    select distinct
        md5(cast(coalesce(cast(country as string), '_null_') || '-' || coalesce(cast(segment as string), '_null_') as string)) as market_key,
        country,
        segment
    from customers
),

fact as (
    select
        md5(cast(coalesce(cast(c.country as string), '_null_') || '-' || coalesce(cast(c.segment as string), '_null_') as string)) as market_key,
        o.total
    from orders o
    join customers c on c.customer_id = o.customer_id
)

select d.market_key, d.country, d.segment, count(*) as orders, sum(f.total) as revenue
from fact f
join dim d on d.market_key = f.market_key
group by d.market_key, d.country, d.segment
