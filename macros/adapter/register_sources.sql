{#- Shows every streamed source and its quarantine to the metastore, so that source() just works. Runs on-run-start.
    A table that ingestion has made is adopted as it is. One that it has not made yet is made here, empty, with the
    columns and properties that ingestion would give it (scripts/headwaters/contract.py; a test compares the two). -#}
{% macro register_sources() %}
    {%- if execute -%}
        {%- set streams = graph.sources.values() | selectattr('config.meta.stream', 'defined') | list -%}
        {%- for schema, sources in streams | groupby('schema') -%}
            {%- do run_query('create schema if not exists ' ~ schema) -%}
            {%- set registered = run_query('show tables in ' ~ schema).columns['tableName'].values() | list -%}
            {%- for source in sources -%}
                {%- for table in hw_stream_tables(source) if table.name not in registered -%}
                    {%- do hw_register_table(schema, table) -%}
                {%- endfor -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- `create … location` without columns adopts whatever is there, also a table that has drifted from its contract; on
    an empty folder it makes a table without columns, which then get theirs. Never `create or replace`: ingestion may be
    writing its first batch at this moment. -#}
{% macro hw_register_table(schema, table) %}
    {%- set name = schema ~ '.' ~ table.name -%}
    {%- set described = run_query('describe schema ' ~ schema) -%}
    {%- set ns = namespace(location=none) -%}
    {%- for row in described.rows if row[0] == 'Location' -%}{%- set ns.location = row[1] -%}{%- endfor -%}
    {%- do run_query("create table if not exists " ~ name ~ " using delta location '" ~ ns.location ~ "/" ~ table.name ~ "'") -%}
    {%- if run_query('show columns in ' ~ name).rows | length == 0 -%}
        {%- do run_query('alter table ' ~ name ~ ' add columns (' ~ table.columns | join(', ') ~ ')') -%}
        {%- do run_query('alter table ' ~ name ~ ' set tblproperties (' ~ table.properties ~ ')') -%}
    {%- endif -%}
{% endmacro %}


{#- The bronze table and the quarantine of a streamed source: name, columns and properties as SQL. -#}
{% macro hw_stream_tables(source) %}
    {%- set stream = source.config.meta.stream -%}
    {%- set origin = {
        'files': ['`_source_file` string'],
        'kafka': [
            '`_topic` string',
            '`_partition` int',
            '`_offset` bigint',
            '`_timestamp` timestamp',
            '`_key` binary',
            '`_headers` array<struct<key:string,value:binary>>',
        ],
        'delta': [],
        'delta_changes': ['`_source_change` string', '`_source_version` bigint', '`_source_timestamp` timestamp'],
        'rate': ['`_offset` bigint'],
    } -%}
    {%- set lineage = origin[stream['from']] + ['`_ingested_at` timestamp', '`_batch_id` bigint'] -%}
    {%- set columns = [] -%}
    {%- for column in source.columns.values() -%}
        {%- do columns.append('`' ~ column.name ~ '` ' ~ column.data_type) -%}
    {%- endfor -%}
    {#- files and Kafka have a format; the other sources deliver columns -#}
    {%- set format = stream.get('format') if stream['from'] in ['files', 'kafka'] else none -%}
    {%- if stream.get('schema', 'rescue') != 'fail' and format not in ['csv', 'raw'] -%}
        {%- do columns.append('`_rescued` string') -%}
    {%- endif -%}
    {%- set declared = hw_declared_properties(source.config) -%}
    {%- set bronze = dict({'delta.enableChangeDataFeed': 'true'}, **declared) -%}
    {#- a declared property may name bronze's columns; the owner of a table is that of both -#}
    {%- set quarantine = {'delta.enableChangeDataFeed': 'true'} -%}
    {%- for name, value in declared.items() if name.startswith('catalog.') -%}{%- do quarantine.update({name: value}) -%}{%- endfor -%}
    {{ return([
        {
            'name': source.identifier,
            'columns': columns + lineage,
            'properties': hw_assignments(dict(bronze, **{'headwaters.declared': bronze | sort | join(', ')})),
        },
        {
            'name': source.identifier ~ '_quarantine',
            'columns': [
                '`reason` string',
                '`field` string',
                '`message` string',
                '`record` binary',
                '`contract` string',
            ] + lineage,
            'properties': hw_assignments(quarantine),
        },
    ]) }}
{% endmacro %}
