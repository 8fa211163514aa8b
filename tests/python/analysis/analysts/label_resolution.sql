select
    label,
    t.priority,
    count(*) as tickets,
    avg(datediff(t.closed_at, t.opened_at)) as days_to_close
from tickets t
lateral view explode(t.labels) l as label
where t.closed_at is not null
group by label, t.priority
