{#- Where a model goes: into the schema of its layer. Only the target schema `main` has the layers' plain names; any other,
    such as a developer's or a pull request's, puts its name before them, so that nobody writes to what others read. -#}
{% macro generate_schema_name(custom_schema_name, node) %}
    {%- if custom_schema_name is none -%}
        {{ target.schema }}
    {%- elif target.schema == 'main' -%}
        {{ custom_schema_name | trim }}
    {%- else -%}
        {{ target.schema }}_{{ custom_schema_name | trim }}
    {%- endif -%}
{% endmacro %}
