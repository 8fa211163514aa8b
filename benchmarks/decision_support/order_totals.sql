{{ config(incremental_strategy='auto', unique_key=['l_orderkey']) }}

-- lines of an order, added up
select
    l_orderkey,
    count(*) as line_count,
    sum(l_quantity) as quantity,
    sum(net) as net,
    sum(charge) as charge
from {{ ref('order_lines') }}
group by l_orderkey
