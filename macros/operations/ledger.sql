{#- The record of an operation: a row in ops.operations before it starts and another when it is done, and who, when and why in the
    metadata of every commit in between. A row `started` without a second row is an operation that failed or was killed. -#}

{#- Begins an operation on one table and returns what `hw_finish_operation` needs. `detail` is the table's row of DESCRIBE
    DETAIL, or none. -#}
{% macro hw_begin_operation(operation, table, reason, arguments, version, detail, undo) %}
    {%- set record = {
        'id': local_md5(invocation_id ~ operation ~ table)[:12], 'operation': operation, 'table': table, 'reason': reason,
        'user': hw_invoked_by(),
        'arguments': tojson(arguments, sort_keys=true), 'version': version, 'files': detail['numFiles'] if detail else none,
        'bytes': detail['sizeInBytes'] if detail else none, 'undo': undo,
    } -%}
    {%- do hw_create_ops_table('operations', hw_create_operations_sql()) -%}
    {%- do hw_record_operation(record, 'started', none) -%}
    {%- do hw_sign_commits(record) -%}
    {{ return(record) }}
{% endmacro %}


{% macro hw_finish_operation(record, version_after, state='done') %}
    {%- do run_query('reset `spark.databricks.delta.commitInfo.userMetadata`') -%}
    {%- do hw_record_operation(record, state, version_after) -%}
{% endmacro %}


{#- Every commit from now on says who, when and why (userMetadata of DESCRIBE HISTORY), until `hw_finish_operation`. -#}
{% macro hw_sign_commits(record) %}
    {%- set text = tojson({'operation': record.operation, 'id': record.id, 'user': record.user, 'reason': record.reason,
        'at': run_started_at.strftime('%Y-%m-%dT%H:%M:%SZ')}, sort_keys=true) -%}
    {#- what SET, or Spark's replacing of ${names}, would take for its own -#}
    {%- set safe = text | replace('`', '\\u0060') | replace(';', '\\u003b') | replace('$', '\\u0024') -%}
    {%- do run_query('set `spark.databricks.delta.commitInfo.userMetadata` = `' ~ safe ~ '`') -%}
{% endmacro %}


{% macro hw_record_operation(record, state, version_after) %}
    {%- set values = [] -%}
    {%- for text in [record.id, state, record.operation, record.table, record.user, record.reason, record.arguments] -%}
        {%- do values.append(hw_literal(text)) -%}
    {%- endfor -%}
    {%- for number in [record.version, version_after, record.files, record.bytes] -%}
        {%- do values.append('null' if number is none else number | string) -%}
    {%- endfor -%}
    {%- do run_query('insert into ' ~ hw_ops_name('operations') ~ ' select current_timestamp(), ' ~ values | join(', ') ~ ', '
        ~ ('null' if record.undo is none else hw_literal(record.undo)) ~ ', ' ~ hw_literal(invocation_id)) -%}
{% endmacro %}


{% macro hw_create_operations_sql() -%}
create table if not exists {{ hw_ops_name('operations') }} (
    at timestamp comment 'When this was written, UTC.',
    operation_id string comment 'The same in the two rows of an operation.',
    state string comment 'started, and then done, or failed where the operation continued with other tables.',
    operation string,
    table_name string,
    user string,
    reason string,
    arguments string comment 'As JSON.',
    version_before bigint,
    version_after bigint,
    files bigint comment 'Of the table, before.',
    bytes bigint comment 'Of the table, before.',
    undo string,
    invocation_id string
) using delta comment 'One row per operation and state.'
{%- endmacro %}


{#- Who started dbt: HEADWATERS_USER, or the user of the machine. -#}
{% macro hw_invoked_by() %}
    {{ return(env_var('HEADWATERS_USER', '') or env_var('USER', '') or env_var('LOGNAME', 'unknown')) }}
{% endmacro %}
