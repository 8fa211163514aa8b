{#- Tables without a unique_key: all columns identify a row, and equal rows are counted. For each row whose number
    changes, a change set has one `delete`, if the table has the row, and one `insert` for each of its new copies. -#}

{#- Selects the change set that removes the rows of one query and adds those of the other. `present` selects the table's
    copies of these rows; without it, the removed rows are all copies. An empty array drops the groups without a net
    change: Spark cannot optimize a HAVING over a union with a scalar subquery as a column. -#}
{% macro hw_counted_change_set_sql(added, taken, columns, present=none) -%}
    {%- set names = columns | map(attribute='quoted') | join(', ') -%}
select {{ names }}, _operation from (
select {{ names }}, sum(_net) as _net, sum(_copies) as _copies from (
select {{ names }}, 1L as _net, 0L as _copies from (
{{ added }}
)
union all
select {{ names }}, -1L, {{ '0L' if present else '1L' }} from (
{{ taken }}
)
    {%- if present %}
union all
select {{ names }}, 0L, 1L from (
{{ present }}
)
    {%- endif %}
) group by {{ names }}
) lateral view explode(if(_net = 0, array(), concat(
array_repeat('delete', if(_copies > 0, 1, 0)),
array_repeat('insert', cast(greatest(_copies + _net, 0) as int)),
array_repeat('missing', if(_copies + _net < 0, 1, 0))
))) _operations as _operation
{%- endmacro %}


{#- Selects the changes from the target's rows of the affected keys, which `touched` restricts, to the recomputed rows.
    `recomputed` may use `_touched`, the keys. -#}
{% macro hw_recomputed_without_key_sql(target, affected, touched, recomputed, columns) -%}
with _touched as (
{{ affected }}
)
{{ hw_counted_change_set_sql(recomputed, 'select _target.* from ' ~ target ~ ' as _target' ~ touched, columns) }}
{%- endmacro %}


{#- Selects the change set of inserted and deleted rows, with the copies that the target has of them. -#}
{% macro hw_difference_without_key_sql(target, inserted, deleted, columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
with _gained as (
{{ inserted }}
),
_lost as (
{{ deleted }}
)
{{ hw_counted_change_set_sql('select * from _gained', 'select * from _lost', columns, hw_present_copies_sql(target, names)) }}
{%- endmacro %}


{% macro hw_present_copies_sql(target, names) -%}
select _target.* from {{ target }} as _target left semi join (select * from _gained union select * from _lost) as _changed
on {{ hw_equals(names, '_target', '_changed') }}
{%- endmacro %}


{% macro hw_inspection_without_key_sql(target, stage) -%}
select count_if(_operation = 'insert') as inserted, count_if(_operation = 'delete') as deleted, count_if(_operation = 'missing') as missing,
{{ hw_bytes_and_types_sql(target, ['_operation']) }}
from {{ stage }}
{%- endmacro %}
