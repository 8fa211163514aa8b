{{ config(incremental_strategy='auto', unique_key=['o_orderkey']) }}

-- one row an order, with its customer's market and nation
select
    o.o_orderkey,
    o.o_custkey,
    o.o_orderdate,
    o.o_orderpriority,
    o.o_totalprice,
    c.c_mktsegment,
    n.n_name as nation
from {{ source('tpch', 'orders') }} as o
left join {{ source('tpch', 'customer') }} as c on o.o_custkey = c.c_custkey
left join {{ source('tpch', 'nation') }} as n on c.c_nationkey = n.n_nationkey
