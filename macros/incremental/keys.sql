{#- Models that are computed key by key: scripts/headwaters/runs/strategies/keyed.py and affected_keys.py. -#}

{% macro hw_distinct_keys_sql(queries) -%}
select distinct * from (
    {%- for query in queries %}
{{ 'union all' if not loop.first }}
{{ query }}
    {%- endfor %}
)
{%- endmacro %}


{#- The rows of an input that leads to the key, for rows that lead to it. `few`: so few that they are sent everywhere. -#}
{% macro hw_rows_of_via_sql(rows, via, pairs, few) -%}
(select {{ '/*+ broadcast(_rows) */ ' if few }}_via.* from {{ via }} as _via
left semi join {{ rows }} as _rows on {{ pairs }})
{%- endmacro %}


{#- An input that leads to the key through another one, without the rows of other keys. -#}
{% macro hw_input_of_via_sql(input, via, pairs) -%}
(select _input.* from {{ input }} as _input
left semi join {{ via }} as _via
on {{ pairs }})
{%- endmacro %}


{#- The same of an input that has the key; without a join where the bounds list the keys, and are a condition beside it. -#}
{% macro hw_input_of_keys_sql(input, keys, pairs, within) -%}
(select _input.* from {{ input }} as _input
    {%- if pairs %}
left semi join {{ keys }} on {{ pairs | join(' and ') }}
    {%- endif %} where {{ within }})
{%- endmacro %}


{#- The join with the affected keys, `_touched`; none where the bounds list the keys, and are a condition beside it. -#}
{% macro hw_touched_rows_sql(key, within) -%}
    {%- if key %}
left semi join _touched on {{ hw_equals(key, '_target', '_touched') }}
    {%- endif %}
where {{ within }}
{%- endmacro %}


{#- The rows of a table whose keys are among those of `rows`, few enough to be sent everywhere. An outer join of few rows with the table
    would have Spark sort all of it by the key. -#}
{% macro hw_rows_of_few_keys_sql(table, rows, keys) -%}
(select /*+ broadcast(_few) */ _all.* from {{ table }} as _all left semi join {{ rows }} as _few on {{ hw_equals(keys, '_all', '_few') }})
{%- endmacro %}


{#- How many keys a table has, Delta tells without reading its rows if each row is a key. -#}
{% macro hw_share_of_keys_sql(relation, affected, count) -%}
select (select count(*) from (
{{ affected }}
)) as touched, (
select {{ count }}
from {{ relation }}
) as present
{%- endmacro %}


{% macro hw_leading_rows_sql(names, rows, keys) -%}
with _touched as (
{{ keys }}
)
select {{ names }} from {{ rows }}
{%- endmacro %}


{#- The model's rows of the affected keys. A row of another key would not be recomputed when it changes. -#}
{% macro hw_rows_of_affected_keys_sql(rows, key, message) -%}
select _model.* from (
{{ rows }}
) as _model left join (select *, true as _is_touched from _touched) as _known on {{ hw_equals(key, '_model', '_known') }}
where if(_is_touched, true, raise_error({{ hw_literal(message) }}))
{%- endmacro %}


{% macro hw_rows_of_led_keys_sql(rows, key) -%}
select _model.* from (
{{ rows }}
) as _model left semi join _touched on {{ hw_equals(key, '_model', '_touched') }}
{%- endmacro %}


{% macro hw_led_keys_sql(names, queries) -%}
select distinct {{ names | join(', ') }} from (
{{ queries | join('\nunion all\n') }}
)
{%- endmacro %}
