{{ config(incremental_strategy='auto', unique_key=['l_orderkey', 'l_linenumber']) }}

-- a line with its order, customer, part and supplier
select
    l.l_orderkey,
    l.l_linenumber,
    l.l_shipdate,
    l.net,
    o.o_orderdate,
    o.c_mktsegment,
    o.nation,
    p.p_name,
    p.p_brand,
    p.p_type,
    s.s_name
from {{ ref('order_lines') }} as l
left join {{ ref('order_headers') }} as o on l.l_orderkey = o.o_orderkey
left join {{ source('tpch', 'part') }} as p on l.l_partkey = p.p_partkey
left join {{ source('tpch', 'supplier') }} as s on l.l_suppkey = s.s_suppkey
