select priority, assignee, count(*) as tickets, max(opened_at) as last_opened
from tickets
group by rollup (priority, assignee)
