{% macro images(relation, at=none) %}
    {{ return(hw_input('images', relation, {'column': at})) }}
{% endmacro %}
