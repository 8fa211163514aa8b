select user_id, collect_list(page) as pages, count(*) as views
from events
where name = 'page_view'
group by user_id
