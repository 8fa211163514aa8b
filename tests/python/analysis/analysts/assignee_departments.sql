select t.ticket_id, t.assignee, e.employee_id, e.department
from tickets t
left join employees e on upper(trim(t.assignee)) = upper(trim(e.name))
