{#- Compares the result over hidden tables with all rows of the table: scripts/headwaters/runs/strategies/staged.py. -#}
{% macro hw_compared_sql(target, rows, keys, beside) -%}
with _computed as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from (
{{ rows }}
)),
_present as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from {{ target }})
{{ hw_classified_sql('_computed', '_present', keys, beside) }}
{%- endmacro %}
