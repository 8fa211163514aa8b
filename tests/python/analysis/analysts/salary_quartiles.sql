select employee_id, name, salary, ntile(4) over (order by salary desc) as quartile
from employees
