with recursive lines as (
    select employee_id, name, manager_id, 0 as depth
    from employees
    where manager_id is null
    union all
    select e.employee_id, e.name, e.manager_id, l.depth + 1
    from employees e
    join lines l on e.manager_id = l.employee_id
)

select employee_id, name, manager_id, depth
from lines
