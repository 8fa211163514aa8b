{{ config(incremental_strategy='signed_sum', unique_key=['l_returnflag', 'l_linestatus']) }}

-- the pricing summary report
select
    l_returnflag,
    l_linestatus,
    sum(_weight) as line_count,
    sum(_weight * l_quantity) as quantity,
    sum(_weight * l_extendedprice) as base_price,
    sum(_weight * net) as net,
    sum(_weight * charge) as charge
from {{ signed(ref('order_lines')) }}
group by l_returnflag, l_linestatus
