{{ config(incremental_strategy='auto', unique_key=['o_custkey']) }}

-- the last order of each customer
select
    o_custkey,
    o_orderkey,
    o_orderdate,
    o_totalprice
from (
    select
        *,
        row_number() over (partition by o_custkey order by o_orderdate desc, o_orderkey desc) as place
    from {{ source('tpch', 'orders') }}
)
where place = 1
