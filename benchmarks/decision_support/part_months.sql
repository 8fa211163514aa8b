{{ config(incremental_strategy='signed_sum', unique_key=['l_partkey', 'ship_month']) }}

-- what a part sold in a month
select
    l_partkey,
    year(l_shipdate) * 100 + month(l_shipdate) as ship_month,
    sum(_weight) as line_count,
    sum(_weight * l_quantity) as quantity,
    sum(_weight * net) as net
from {{ signed(ref('order_lines')) }}
group by l_partkey, year(l_shipdate) * 100 + month(l_shipdate)
