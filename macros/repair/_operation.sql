{#- The record of an operation: a row in ops.operations before it starts and another when it is done, and who, when and why in the
    metadata of every commit in between. A row `started` without a second row is an operation that failed or was killed. -#}

{#- Begins an operation on one table and returns what `_end` needs. `detail` is the table's row of DESCRIBE DETAIL, or none. -#}
{% macro _begin(operation, table, reason, arguments, version, detail, undo) %}
    {%- set record = {
        'id': local_md5(invocation_id ~ operation ~ table)[:12], 'operation': operation, 'table': table, 'reason': reason, 'user': _who(),
        'arguments': tojson(arguments, sort_keys=true), 'version': version, 'files': detail['numFiles'] if detail else none, 'bytes': detail['sizeInBytes'] if detail else none, 'undo': undo,
    } -%}
    {%- do _operations_table() -%}
    {%- do _record(record, 'started', none) -%}
    {%- do _sign_commits(record) -%}
    {{ return(record) }}
{% endmacro %}


{% macro _end(record, version_after, state='done') %}
    {%- do run_query('reset `spark.databricks.delta.commitInfo.userMetadata`') -%}
    {%- do _record(record, state, version_after) -%}
{% endmacro %}


{#- Every commit from now on says who, when and why (userMetadata of DESCRIBE HISTORY), until `_end`. -#}
{% macro _sign_commits(record) %}
    {%- set text = tojson({'operation': record.operation, 'id': record.id, 'user': record.user, 'reason': record.reason, 'at': run_started_at.strftime('%Y-%m-%dT%H:%M:%SZ')}, sort_keys=true) -%}
    {#- what SET, or Spark's replacing of ${names}, would take for its own -#}
    {%- set safe = text | replace('`', '\\u0060') | replace(';', '\\u003b') | replace('$', '\\u0024') -%}
    {%- do run_query('set `spark.databricks.delta.commitInfo.userMetadata` = `' ~ safe ~ '`') -%}
{% endmacro %}


{#- The RESTORE that takes an operation's own commits back: to the version before its oldest. Others may have written since it was planned. -#}
{% macro _undo_of(record, relation) %}
    {%- set own = [] -%}
    {%- for row in run_query('describe history ' ~ relation ~ ' limit 100').rows if record.id in (row['userMetadata'] or '') -%}{%- do own.append(row['version'] | int) -%}{%- endfor -%}
    {{ return(_restore_sql(relation, (own | min) - 1 if own else record.version)) }}
{% endmacro %}


{#- A run that was killed between its commit and its watermark is known by being the last that changed rows: what repairs rows in between would hide it. -#}
{% macro _refuse_pending(operation, name, properties) %}
    {%- if fromjson(_as_mapping(properties).get('headwaters.pending', 'null')) -%}
        {{ exceptions.raise_compiler_error(operation ~ ': a run of ' ~ name ~ ' was cut short: `dbt run --select ' ~ name.split('.')[-1] ~ '` first. Nothing was changed.') }}
    {%- endif -%}
{% endmacro %}


{% macro _record(record, state, version_after) %}
    {%- set values = [] -%}
    {%- for text in [record.id, state, record.operation, record.table, record.user, record.reason, record.arguments] -%}{%- do values.append(string_literal(text)) -%}{%- endfor -%}
    {%- for number in [record.version, version_after, record.files, record.bytes] -%}{%- do values.append('null' if number is none else number | string) -%}{%- endfor -%}
    {%- do run_query('insert into ' ~ _operations_name() ~ ' select current_timestamp(), ' ~ values | join(', ') ~ ', ' ~ ('null' if record.undo is none else string_literal(record.undo)) ~ ', ' ~ string_literal(invocation_id)) -%}
{% endmacro %}


{% macro _operations_name() %}
    {{ return(_quoted_name(generate_schema_name('ops', none) | trim, 'operations')) }}
{% endmacro %}


{% macro _operations_table() %}
    {%- set schema = generate_schema_name('ops', none) | trim -%}
    {%- if adapter.get_relation(none, schema, 'operations') is not none -%}{{ return(none) }}{%- endif -%}
    {%- do run_query('create schema if not exists ' ~ _quote(schema)) -%}
    {%- do run_query('create table if not exists ' ~ _operations_name() ~ " (at timestamp comment 'When this was written, UTC.', operation_id string comment 'The same in the two rows of an operation.', "
        ~ "state string comment 'started, and then done, or failed where the operation went on with other tables.', operation string, table_name string, user string, reason string, arguments string comment 'As JSON.', version_before bigint, version_after bigint, "
        ~ "files bigint comment 'Of the table, before.', bytes bigint comment 'Of the table, before.', undo string, invocation_id string) using delta comment 'One row per operation and state.'") -%}
{% endmacro %}


{#- Who started dbt: HEADWATERS_USER, or the user of the machine. -#}
{% macro _who() %}
    {{ return(env_var('HEADWATERS_USER', '') or env_var('USER', '') or env_var('LOGNAME', 'unknown')) }}
{% endmacro %}


{% macro _need_reason(operation, reason) %}
    {%- if not reason or not reason | string | trim -%}
        {{ exceptions.raise_compiler_error(operation ~ ": say why, in reason: '…': it is kept in the table's history and in ops.operations. Nothing was changed.") }}
    {%- endif -%}
{% endmacro %}
