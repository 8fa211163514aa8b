select currency, rate, valid_from
from exchange_rates
where valid_from = (select max(valid_from) from exchange_rates)
