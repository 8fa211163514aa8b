{% macro lookup(relation) %}
    {{ return(_input('lookup', relation)) }}
{% endmacro %}
