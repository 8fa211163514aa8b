{% macro signed(relation) %}
    {{ return(_input('signed', relation)) }}
{% endmacro %}
