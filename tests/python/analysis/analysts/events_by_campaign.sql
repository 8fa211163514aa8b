select
    get_json_object(payload, '$.campaign') as campaign,
    get_json_object(payload, '$.source') as source,
    count(*) as events,
    count(distinct user_id) as users
from events
where name = 'visit'
group by 1, 2
