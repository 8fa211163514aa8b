with marked as (
    select
        user_id,
        happened_at,
        page,
        case
            when lag(happened_at) over (partition by user_id order by happened_at) is null
                or happened_at > lag(happened_at) over (partition by user_id order by happened_at) + interval 30 minutes
                then 1
            else 0
        end as is_new
    from events
),

numbered as (
    select
        user_id,
        happened_at,
        page,
        sum(is_new) over (partition by user_id order by happened_at) as session_number
    from marked
)

select
    user_id,
    session_number,
    min(happened_at) as started_at,
    max(happened_at) as ended_at,
    count(*) as hits,
    count(distinct page) as pages
from numbered
group by user_id, session_number
