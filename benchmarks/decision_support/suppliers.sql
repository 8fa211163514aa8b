{{ config(incremental_strategy='auto', unique_key=['l_suppkey']) }}

-- how reliably a supplier delivers
select
    l_suppkey,
    count(*) as line_count,
    sum(case when is_late then 1 else 0 end) as late_lines,
    count(distinct l_partkey) as part_count,
    sum(net) as net
from {{ ref('order_lines') }}
group by l_suppkey
