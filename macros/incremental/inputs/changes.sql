{% macro changes(relation) %}
    {{ return(hw_input('changes', relation)) }}
{% endmacro %}
