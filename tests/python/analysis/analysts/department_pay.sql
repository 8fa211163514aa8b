select
    department,
    count(*) as people,
    avg(salary) as average_salary,
    stddev(salary) as deviation,
    percentile(salary, 0.5) as median_salary
from employees
group by department
having count(*) > 1
