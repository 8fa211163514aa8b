{% macro images(relation) %}
    {{ return(_input('images', relation)) }}
{% endmacro %}
