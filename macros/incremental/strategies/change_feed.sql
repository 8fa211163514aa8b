{#- Each row of the followed input makes separate rows of the model:
    scripts/headwaters/runs/strategies/change_feed.py. -#}
{% macro hw_inserted_rows_sql(inserted, before) -%}
select *{{ before }}, 'insert' as _operation from (
{{ inserted }}
)
{%- endmacro %}


{#- Compares inserted and deleted rows by key. A key of the former alone is inserted, a key of the latter alone is
    deleted, and a key of both is updated, unless its row is the same. -#}
{% macro hw_difference_sql(inserted, deleted, keys, beside) -%}
    {%- set key_columns = hw_quoted(keys) | join(', ') -%}
with _appeared as (select struct(*) as _row, {{ key_columns }} from (
{{ inserted }}
)),
_disappeared as (select struct(*) as _row, {{ key_columns }} from (
{{ deleted }}
))
{{ hw_classified_sql('_appeared', '_disappeared', keys, beside) }}
{%- endmacro %}
