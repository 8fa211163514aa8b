{#- Returns a table at an earlier version or time: `select * from {{ as_of(ref('orders'), version=17) }}`. -#}
{% macro as_of(relation, version=none, timestamp=none) %}
    {%- if not execute or relation.is_cte -%}
        {{ return(relation) }}
    {%- endif -%}
    {{ return(relation ~ ' version as of ' ~ hw_version_of('as_of', relation, version, timestamp)) }}
{% endmacro %}
