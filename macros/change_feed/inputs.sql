{% macro changes(relation) %}{{ return(relation) }}{% endmacro %}
{% macro affected(relation, key, via=none) %}{{ return(relation) }}{% endmacro %}
{% macro signed(relation) %}{{ return(relation) }}{% endmacro %}
{% macro images(relation) %}{{ return(relation) }}{% endmacro %}
{% macro lookup(relation) %}{{ return(relation) }}{% endmacro %}
