{#- Writes Spark's own `listagg`. dbt-spark joins a `collect_list`, which ignores the order. A limit cuts the text at a
    separator that texts do not have. -#}
{% macro headwaters__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
    {%- set delimiter = 'chr(31)' if limit_num else delimiter_text -%}
    {%- if limit_num %}replace(substring_index({% endif -%}
    listagg({{ measure }}, {{ delimiter }}) {%- if order_by_clause %} within group ({{ order_by_clause }}){% endif -%}
    {%- if limit_num -%}, chr(31), {{ limit_num }}), chr(31), {{ delimiter_text }}) {%- endif -%}
{%- endmacro %}
