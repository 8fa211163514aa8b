{{ config(incremental_strategy='auto', unique_key=['o_orderkey']) }}

-- an order with the totals of its lines
select
    o.o_orderkey,
    o.o_custkey,
    o.o_orderdate,
    o.c_mktsegment,
    o.nation,
    t.line_count,
    t.quantity,
    t.net,
    o.o_totalprice - t.net as difference
from {{ ref('order_headers') }} as o
left join {{ ref('order_totals') }} as t on o.o_orderkey = t.l_orderkey
