{#- The schema of what headwaters itself writes down: operations, table states, expectations, erasures. -#}
{% macro hw_ops_schema() %}
    {{ return(generate_schema_name('ops', none) | trim) }}
{% endmacro %}


{% macro hw_ops_name(table) %}
    {{ return(hw_quoted_name(hw_ops_schema(), table)) }}
{% endmacro %}


{#- Creates a table of the schema by its statement, where there is none. -#}
{% macro hw_create_ops_table(table, statement) %}
    {%- if adapter.get_relation(none, hw_ops_schema(), table) is none -%}
        {%- do run_query('create schema if not exists ' ~ hw_quote(hw_ops_schema())) -%}
        {%- do run_query(statement) -%}
    {%- endif -%}
{% endmacro %}
