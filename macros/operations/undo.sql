{#- The RESTORE that takes an operation's own commits back: to the version before its oldest. Others may have written
    since it was planned. -#}
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


{#- A run that was killed between its commit and its note of applied versions is known by being the last that changed rows: what repairs
    rows in between would hide it. -#}
{% macro hw_refuse_pending(operation, name, properties) %}
    {%- if fromjson(adapter.as_mapping(properties).get('headwaters.pending', 'null')) -%}
        {{ hw_raise('INTERRUPTED_RUN', operation ~ ': a run of ' ~ name ~ ' was interrupted: `dbt run --select '
            ~ name.split('.')[-1] ~ '` first. Nothing was changed.') }}
    {%- endif -%}
{% endmacro %}
