{% macro changes(relation) %}
    {{ return(_input('changes', relation)) }}
{% endmacro %}
