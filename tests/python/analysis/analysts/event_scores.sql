select user_id, name, score, count(*) as events
from events
group by user_id, name, score
