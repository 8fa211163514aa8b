{#- dbt's own literals, in its unit tests for one. -#}
{% macro headwaters__string_literal(value) %}
    {{- return(hw_literal(value)) -}}
{% endmacro %}
