select *
from (select order_id, method, amount from payments where status = 'ok')
pivot (sum(amount) for method in ('card' as card, 'cash' as cash, 'transfer' as transfer))
