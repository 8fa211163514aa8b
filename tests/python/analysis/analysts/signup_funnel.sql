with steps as (
    select
        user_id,
        min(case when name = 'visit' then happened_at end) as visited_at,
        min(case when name = 'signup' then happened_at end) as signed_up_at,
        min(case when name = 'purchase' then happened_at end) as purchased_at
    from events
    group by user_id
)

select
    count(visited_at) as visitors,
    count(case when signed_up_at > visited_at then 1 end) as signups,
    count(case when purchased_at > signed_up_at then 1 end) as buyers
from steps
