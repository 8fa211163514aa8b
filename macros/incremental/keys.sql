{#- Models that are computed key by key: scripts/headwaters/runs/strategies/keyed.py and affected_keys.py. -#}

{% macro hw_distinct_keys_sql(queries) -%}
select distinct * from (
    {%- for query in queries %}
{{ 'union all' if not loop.first }}
{{ query }}
    {%- endfor %}
)
{%- endmacro %}


{#- Selects the rows of an input through which given rows lead to the key. `few`: Spark broadcasts the given rows. -#}
{% macro hw_rows_of_via_sql(rows, via, pairs, few) -%}
(select {{ '/*+ broadcast(_rows) */ ' if few }}_via.* from {{ via }} as _via
left semi join {{ rows }} as _rows on {{ pairs }})
{%- endmacro %}


{#- Selects an input that leads to the key through another one, without the rows of other keys. -#}
{% macro hw_input_of_via_sql(input, via, pairs) -%}
(select _input.* from {{ input }} as _input
left semi join {{ via }} as _via
on {{ pairs }})
{%- endmacro %}


{#- Selects an input that has the key, without the rows of other keys. If the bounds list the keys, they are the
    condition, without a join. -#}
{% macro hw_input_of_keys_sql(input, keys, pairs, within) -%}
(select _input.* from {{ input }} as _input
    {%- if pairs %}
left semi join {{ keys }} on {{ pairs | join(' and ') }}
    {%- endif %} where {{ within }})
{%- endmacro %}


{#- Joins the affected keys, `_touched`. If the bounds list the keys, they are the condition, without a join. -#}
{% macro hw_touched_rows_sql(key, within) -%}
    {%- if key %}
left semi join _touched on {{ hw_equals(key, '_target', '_touched') }}
    {%- endif %}
where {{ within }}
{%- endmacro %}


{#- Selects the rows of a table with the keys of `rows`, which Spark broadcasts because they are few. For an outer join
    of few rows with the table, Spark would sort all of the table by the key. -#}
{% macro hw_rows_of_few_keys_sql(table, rows, keys) -%}
(select /*+ broadcast(_few) */ _all.* from {{ table }} as _all left semi join {{ rows }} as _few on {{ hw_equals(keys, '_all', '_few') }})
{%- endmacro %}


{#- Counts the affected keys, and those of a table. If each row is a key, Delta counts without reading rows. -#}
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


{#- Selects the model's rows of the affected keys. It fails at a row of another key, which no run would recompute. -#}
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
