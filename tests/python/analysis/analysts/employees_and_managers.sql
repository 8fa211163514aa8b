select
    e.employee_id,
    e.name,
    e.department,
    m.name as manager,
    e.salary - avg(e.salary) over (partition by e.department) as above_average
from employees e
left join employees m on m.employee_id = e.manager_id
