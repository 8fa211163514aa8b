{#- Escapes a text for dbt's `string_literal`, which only adds the quotes; packages and dbt's unit tests call one inside the
    other. dbt-spark leaves the backslashes, which Spark reads as escapes. -#}
{% macro headwaters__escape_single_quotes(expression) -%}
{{ hw_escaped(expression) }}
{%- endmacro %}
