with visits as (
    select
        user_id,
        page,
        happened_at,
        row_number() over (partition by user_id order by happened_at) as visit
    from events
    where name = 'page_view'
)

select v.user_id, v.page as landing_page, v.happened_at as first_seen_at, c.country
from visits v
left join customers c on c.customer_id = v.user_id
where v.visit = 1
