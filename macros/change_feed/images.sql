{% macro images(relation, at=none) %}
    {{ return(_input('images', relation, {'column': at})) }}
{% endmacro %}
