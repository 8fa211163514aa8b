{{ config(incremental_strategy='auto', unique_key=['l_orderkey', 'l_linenumber']) }}

-- one row a line, with what it earns
select
    l_orderkey,
    l_linenumber,
    l_partkey,
    l_suppkey,
    l_shipdate,
    l_returnflag,
    l_linestatus,
    l_quantity,
    l_extendedprice,
    cast(l_extendedprice * (1 - l_discount) as decimal(18, 4)) as net,
    cast(l_extendedprice * (1 - l_discount) * (1 + l_tax) as decimal(18, 6)) as charge,
    l_receiptdate > l_commitdate as is_late,
    upper(l_shipmode) as ship_mode,
    l_comment
from {{ source('tpch', 'lineitem') }}
