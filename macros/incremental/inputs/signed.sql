{% macro signed(relation) %}
    {{ return(hw_input('signed', relation)) }}
{% endmacro %}
