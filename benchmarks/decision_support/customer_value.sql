{{ config(incremental_strategy='auto', unique_key=['o_custkey']) }}

-- what a customer ordered
select
    o_custkey,
    count(*) as order_count,
    sum(net) as net,
    min(o_orderdate) as first_order,
    max(o_orderdate) as last_order
from {{ ref('orders_enriched') }}
group by o_custkey
