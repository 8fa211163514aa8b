{#- Where a model goes: into the schema of its layer. Only the target schema `main` has the layers' plain names; any other,
    such as a developer's or a pull request's, puts its name before them, so that nobody writes to what others read.
    It is also the one macro that dbt calls for every node while it parses, so a wrong table property or policy is said here. -#}
{% macro generate_schema_name(custom_schema_name, node) %}
    {%- if node and node.resource_type in ['model', 'seed', 'snapshot'] -%}
        {%- set where = node.original_file_path ~ ': ' ~ node.name -%}
        {%- do hw_check_properties(where, node.config) -%}
        {%- do hw_check_expectations(where, node.config) -%}
        {%- do hw_check_policy(where, node.config) -%}
    {%- endif -%}
    {%- if custom_schema_name is none -%}
        {{ target.schema }}
    {%- elif target.schema == 'main' -%}
        {{ custom_schema_name | trim }}
    {%- else -%}
        {{ target.schema }}_{{ custom_schema_name | trim }}
    {%- endif -%}
{% endmacro %}
