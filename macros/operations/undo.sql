{#- Returns the RESTORE that undoes an operation's commits: to the version before its oldest one. Others may have written since the
    operation was planned. -#}
{% macro hw_undo_of(record, relation) %}
    {%- set own = [] -%}
    {%- for row in run_query('describe history ' ~ relation ~ ' limit 100').rows if record.id in (row['userMetadata'] or '') -%}
        {%- do own.append(row['version'] | int) -%}
    {%- endfor -%}
    {{ return(hw_restore_sql(relation, (own | min) - 1 if own else record.version)) }}
{% endmacro %}


{% macro hw_restore_sql(relation, version) %}
    {{ return('restore table ' ~ relation ~ ' to version as of ' ~ version) }}
{% endmacro %}


{#- Returns the command that runs statements as an undo, for a shell; on the target that this command was given. -#}
{% macro hw_undo_command(statements) %}
    {{ return(adapter.text.sql_command(statements, invocation_args_dict.get('target'))) }}
{% endmacro %}


{#- Refuses a table with an interrupted run. A run that was killed between its commit and its note of applied versions is recognised as the
    last one that changed rows; a repair would hide it. -#}
{% macro hw_refuse_pending(operation, name, properties) %}
    {%- if fromjson(adapter.commits.as_mapping(properties).get('headwaters.pending', 'null')) -%}
        {{ hw_raise('HW_INTERRUPTED_RUN', operation ~ ': a run of ' ~ name ~ ' was interrupted: `dbt run --select '
            ~ name.split('.')[-1] ~ '` first. Nothing was changed.') }}
    {%- endif -%}
{% endmacro %}
