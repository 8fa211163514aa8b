{#- Tries a model on rows to find faults that its text does not show: scripts/headwaters/runs/checks.py. -#}

{#- Selects a key that a query only gives with, or only without, rows in its lookups. No HAVING: see
    hw_counted_change_set_sql. -#}
{% macro hw_keys_of_lookups_sql(keys, rows, rows_without_lookups) -%}
select {{ keys }} from (
select {{ keys }}, sum(_balance) as _balance from (
select {{ keys }}, 1 as _balance from (
{{ rows }}
)
union all
select {{ keys }}, -1 as _balance from (
{{ rows_without_lookups }}
)
) group by {{ keys }}
) lateral view explode(if(_balance = 0, array(), array(_balance))) _balances as _differs limit 1
{%- endmacro %}


{% macro hw_sample_sql(spec, half) -%}
select *, {{ half }} % 2 = 0 as _in_half from {{ spec.source }} version as of {{ spec.version }} limit 1000
{%- endmacro %}


{#- Selects one row. `_apart` counts the rows that only the whole sample or only its halves give; each side is computed
    once. If keys are recomputed, `_elsewhere` counts the rows of keys outside of the sample. `sides` are the queries
    over the sample and over its halves. -#}
{% macro hw_differences_of_halves_sql(sides, compared, has_key) -%}
select count_if(_strays) as _elsewhere, count_if(_net <> 0) as _apart
from (select * except (_balance, _stray), sum(_balance) as _net, bool_or(_stray) as _strays from (
    {%- for side in sides %}
{{ 'union all' if not loop.first }}
        {%- set is_stray = '_is_touched is null' if has_key else 'false' %}
select {{ compared | join(', ') }}, {{ 1 if loop.first else -1 }} as _balance, {{ is_stray }} as _stray from (
{{ side }}
)
    {%- endfor %}
) group by all)
{%- endmacro %}


{% macro hw_side_of_keys_sql(rows, keys, key) -%}
select _model.*, _is_touched from (
{{ rows }}
) as _model left join {{ keys }} as _known on {{ hw_equals(key, '_model', '_known') }}
{%- endmacro %}


{% macro hw_keys_of_sample_sql(columns, sample, rows) -%}
(select distinct {{ columns }}, true as _is_touched from {{ sample }} as _input where {{ rows }})
{%- endmacro %}
