{#- dbt's own literals, in its unit tests for one. -#}
{% macro spark__string_literal(value) %}
    {{- return(hw_literal(value)) -}}
{% endmacro %}
