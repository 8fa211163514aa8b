{#- Quotes dbt's own literals, for example in its unit tests. -#}
{% macro headwaters__string_literal(value) %}
    {{- return(hw_literal(value)) -}}
{% endmacro %}
