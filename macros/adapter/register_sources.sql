{#- Registers every streamed source and its quarantine in the metastore, so that source() works. A run begins with it. It
    adopts a table that ingestion has created. Otherwise it creates an empty table with the columns and properties that
    ingestion would give it (scripts/headwaters/streams/contract.py). An invalid contract only warns, because other
    models do not need it. -#}
{% macro register_sources() %}
    {%- if execute -%}
        {%- set streams = graph.sources.values() | selectattr('config.meta.stream', 'defined') | list -%}
        {%- for schema, sources in streams | groupby('schema') -%}
            {%- do run_query('create schema if not exists ' ~ schema) -%}
            {%- set registered = run_query('show tables in ' ~ schema).columns['tableName'].values() | list -%}
            {%- set home = hw_schema_location(schema) -%}
            {%- for source in sources -%}
                {%- set problem = adapter.streams.stream_problem(source) -%}
                {%- if problem -%}{%- do exceptions.warn(problem) -%}{%- endif -%}
                {%- for table in ([] if problem else adapter.streams.stream_tables(source)) -%}
                    {%- set location = adapter.streams.table_location(home, table.name) -%}
                    {%- do adapter.runs.check_stream(schema, table.name, location) -%}
                    {%- if table.name not in registered -%}{%- do hw_register_table(schema, table, location) -%}
                    {%- elif table.marks -%}{%- do hw_add_marks(schema ~ '.' ~ table.name, table.marks) -%}{%- endif -%}
                {%- endfor -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- `create … location` without columns adopts an existing table, even one that differs from its contract. On an empty
    folder it creates a table without columns, which are then added. Never use `create or replace`: ingestion may be
    writing its first batch at this moment. -#}
{% macro hw_register_table(schema, table, location) %}
    {%- set name = schema ~ '.' ~ table.name -%}
    {%- do run_query(hw_create_table_at_sql(name, location)) -%}
    {%- if run_query('show columns in ' ~ name).rows | length == 0 -%}
        {%- if table.features -%}{%- do run_query(hw_set_properties_sql(name, table.features)) -%}{%- endif -%}
        {%- do run_query('alter table ' ~ name ~ ' add columns (' ~ table.columns | join(', ') ~ ')') -%}
        {%- do run_query(hw_set_properties_sql(name, table.properties)) -%}
    {%- endif -%}
{% endmacro %}


{#- Returns the folder of a schema's tables. -#}
{% macro hw_schema_location(schema) %}
    {%- set described = run_query('describe schema ' ~ schema) -%}
    {%- for row in described.rows if row[0] == 'Location' -%}{{- return(row[1]) -}}{%- endfor -%}
{% endmacro %}


{#- Adds columns that models now read to a table of an earlier release. -#}
{% macro hw_add_marks(name, marks) %}
    {%- set there = run_query('show columns in ' ~ name).columns[0].values() | list -%}
    {%- for column, declared in marks.items() if column not in there -%}
        {%- do run_query('alter table ' ~ name ~ ' add columns (' ~ declared ~ ')') -%}
    {%- endfor -%}
{% endmacro %}


{% macro hw_create_table_at_sql(name, location) -%}
    create table if not exists {{ name }} using delta location {{ hw_literal(location) }}
{%- endmacro %}
