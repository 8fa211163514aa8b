{% macro lookup(relation) %}
    {{ return(hw_input('lookup', relation)) }}
{% endmacro %}
