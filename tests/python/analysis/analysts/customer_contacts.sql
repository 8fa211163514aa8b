select email, 'customer' as kind, name from customers where email is not null
union
select concat(lower(replace(name, ' ', '.')), '@example.com') as email, 'employee' as kind, name from employees
