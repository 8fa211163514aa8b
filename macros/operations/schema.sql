{#- The tables of operations (operations, table_state, expectations, erasures) are sources of the adapter's package: models/ops/ops.yml
    declares their schema, columns and comments. -#}

{#- Returns the declaration of one of the tables. -#}
{% macro hw_ops_table(name) %}
    {%- set node = graph.sources.get('source.dbt_headwaters.ops.' ~ name) -%}
    {%- if not node -%}
        {{ hw_raise('HW_NO_OPS_TABLE', "the source ops." ~ name ~ ' is disabled, and headwaters records in it what it does: remove '
            ~ '`+enabled: false` from `sources: dbt_headwaters:` of dbt_project.yml.') }}
    {%- endif -%}
    {{ return(node) }}
{% endmacro %}


{% macro hw_ops_schema() %}
    {{ return(hw_ops_table('operations').schema) }}
{% endmacro %}


{% macro hw_ops_name(name) %}
    {%- set node = hw_ops_table(name) -%}
    {{ return(hw_quoted_name(node.schema, node.identifier)) }}
{% endmacro %}


{#- Creates one of the tables if it is missing, or adds the columns that a table of an older release lacks. -#}
{% macro hw_create_ops_table(name) %}
    {%- set node = hw_ops_table(name) -%}
    {%- if adapter.get_relation(none, node.schema, node.identifier) is none -%}
        {%- do run_query('create schema if not exists ' ~ hw_quote(node.schema)) -%}
        {%- do run_query(hw_create_ops_table_sql(node)) -%}
    {%- else -%}
        {%- set present = hw_columns_of_table(hw_ops_name(name)) | map('lower') | list -%}
        {%- set missing = node.columns.values() | rejectattr('name', 'in', present) | list -%}
        {%- if missing -%}{%- do run_query(hw_add_ops_columns_sql(node, missing)) -%}{%- endif -%}
    {%- endif -%}
{% endmacro %}


{#- Creates all of them, so that tests can read them. -#}
{% macro hw_create_ops_tables() %}
    {%- for node in graph.sources.values() if node.unique_id.startswith('source.dbt_headwaters.ops.') -%}
        {%- do hw_create_ops_table(node.name) -%}
    {%- endfor -%}
{% endmacro %}


{% macro hw_create_ops_table_sql(node) -%}
    create table if not exists {{ hw_ops_name(node.name) }} (
        {%- for column in node.columns.values() %}
        {{ hw_ops_column_sql(column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    ) using delta
    comment {{ hw_literal(node.description) }}
    {%- if adapter.properties.declared_properties(node.config) %}
    tblproperties ({{ hw_assignments(adapter.properties.created_properties(node.config)) }})
    {%- endif %}
{%- endmacro %}


{% macro hw_add_ops_columns_sql(node, columns) -%}
    alter table {{ hw_ops_name(node.name) }} add columns (
        {%- for column in columns %}
        {{ hw_ops_column_sql(column) }}{{ ',' if not loop.last }}
        {%- endfor %}
    )
{%- endmacro %}


{% macro hw_ops_column_sql(column) -%}
    {{ hw_quote(column.name) }} {{ column.data_type }} comment {{ hw_literal(column.description) }}
{%- endmacro %}
