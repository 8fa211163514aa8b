{#- Records an operation: a row in ops.operations before it starts and another when it is done, and the user, time and reason in the
    metadata of every commit in between. A row `started` without a second row is an operation that failed or was killed. -#}

{#- Begins an operation on one table and returns the argument of `hw_finish_operation`. `detail` is the table's row of DESCRIBE DETAIL, or
    none. -#}
{% macro hw_begin_operation(operation, table, reason, arguments, version, detail, undo) %}
    {%- set record = {
        'id': local_md5(invocation_id ~ operation ~ table)[:12], 'operation': operation, 'table': table, 'reason': reason,
        'user': adapter.names.user_name(),
        'arguments': tojson(arguments, sort_keys=true), 'version': version, 'files': detail['numFiles'] if detail else none,
        'bytes': detail['sizeInBytes'] if detail else none, 'undo': undo,
    } -%}
    {%- do hw_create_ops_table('operations') -%}
    {%- do hw_record_operation(record, 'started', none) -%}
    {%- do hw_sign_commits(record) -%}
    {{ return(record) }}
{% endmacro %}


{% macro hw_finish_operation(record, version_after, state='done') %}
    {%- do run_query('reset `spark.databricks.delta.commitInfo.userMetadata`') -%}
    {%- do hw_record_operation(record, state, version_after) -%}
{% endmacro %}


{#- Adds user, time and reason to every commit (userMetadata of DESCRIBE HISTORY), until `hw_finish_operation`. -#}
{% macro hw_sign_commits(record) %}
    {%- set text = tojson({'operation': record.operation, 'id': record.id, 'user': record.user, 'reason': record.reason,
        'at': run_started_at.strftime('%Y-%m-%dT%H:%M:%SZ')}, sort_keys=true) -%}
    {#- escapes characters that SET, or Spark's replacement of ${names}, would interpret -#}
    {%- set safe = text | replace('`', '\\u0060') | replace(';', '\\u003b') | replace('$', '\\u0024') -%}
    {%- do run_query('set `spark.databricks.delta.commitInfo.userMetadata` = `' ~ safe ~ '`') -%}
{% endmacro %}


{% macro hw_record_operation(record, state, version_after) %}
    {%- do run_query(hw_insert_operation_sql(record, state, version_after)) -%}
{% endmacro %}


{% macro hw_insert_operation_sql(record, state, version_after) -%}
    insert into {{ hw_ops_name('operations') }} by name select
        current_timestamp() as at,
        {{ hw_literal(record.id) }} as operation_id,
        {{ hw_literal(state) }} as state,
        {{ hw_literal(record.operation) }} as operation,
        {{ hw_literal(record.table) }} as table_name,
        {{ hw_literal(record.user) }} as user,
        {{ hw_literal(record.reason) }} as reason,
        {{ hw_literal(record.arguments) }} as arguments,
        {{ hw_or_null(record.version) }} as version_before,
        {{ hw_or_null(version_after) }} as version_after,
        {{ hw_or_null(record.files) }} as files,
        {{ hw_or_null(record.bytes) }} as bytes,
        {{ 'null' if record.undo is none else hw_literal(record.undo) }} as undo,
        {{ hw_literal(invocation_id) }} as invocation_id
{%- endmacro %}


{% macro hw_or_null(number) -%}
    {{ 'null' if number is none else number }}
{%- endmacro %}
