{#- `change_feed` with `latest_by`, the greatest row of each key: scripts/headwaters/runs/strategies/latest_by.py. -#}

{#- Selects the greatest row of each key by the columns `order`. The other columns break ties, so that the result does
    not depend on the order of reading. -#}
{% macro hw_latest_rows_sql(rows, order, keys) -%}
select inline(array(_latest._row)) from (select max(struct({{ order }}, struct(*) as _row)) as _latest from (
{{ rows }}
) group by {{ keys }})
{%- endmacro %}


{% macro hw_rows_of_touched_keys_sql(rows, keys) -%}
select _all.* from (
{{ rows }}
) as _all left semi join _touched on {{ hw_equals(keys, '_all', '_touched') }}
{%- endmacro %}


{#- Compares the greatest rows of a batch with the target's rows: only a greater row replaces one. `held`: the target,
    or its rows of these keys. -#}
{% macro hw_newer_rows_sql(held, winners, keys, order, within, beside) -%}
    {%- set new, old = hw_quoted(order, '_new') | join(', '), hw_quoted(order, '_old') | join(', ') -%}
with _winners as (select struct(*) as _row, * from (
{{ winners }}
)),
_present as (select struct(*) as _row, * from {{ held }} as _target
where {{ within }})
select inline(array(_new._row)){{ beside }}, if(_old._row is null, 'insert', 'update') as _operation
from _winners as _new left join _present as _old on {{ hw_equals(keys, '_new', '_old') }}
where _old._row is null or struct({{ new }}, _new._row) > struct({{ old }}, _old._row)
{%- endmacro %}


{% macro hw_keys_of_changed_rows_sql(rows, names) -%}
select distinct * from (select {{ names }} from (
{{ rows }}
))
{%- endmacro %}
