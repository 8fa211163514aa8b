{{ config(incremental_strategy='auto', unique_key=['l_orderkey', 'l_linenumber']) }}

-- lines that came back
select
    l_orderkey,
    l_linenumber,
    l_partkey,
    l_suppkey,
    net
from {{ ref('order_lines') }}
where l_returnflag = 'R'
