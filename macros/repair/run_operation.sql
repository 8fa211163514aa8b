{#- Prints a plan; returns true to continue, unless it is a dry run. -#}
{% macro hw_proceed(operation, lines, dry_run) %}
    {{ print(lines | join('\n')) }}
    {%- if dry_run -%}
        {{ print(operation ~ ": a dry run, nothing was changed; dry_run: false and a reason do it") }}
        {{ return(false) }}
    {%- endif -%}
    {{ return(true) }}
{% endmacro %}


{#- Runs statements as an operation; a restore to the version before it is its undo. -#}
{% macro hw_run_operation(operation, target, reason, arguments, statements) %}
    {%- if operation not in ['restore', 'rebuild'] -%}
        {%- do hw_refuse_pending(operation, target.name, target.detail['properties']) -%}
    {%- endif -%}
    {%- set version = hw_newest_commit(target.relation).version -%}
    {%- set record = hw_begin_operation(operation, target.name, reason, arguments, version, target.detail,
        hw_restore_sql(target.relation, version)) -%}
    {%- for statement in statements -%}{%- do run_query(statement) -%}{%- endfor -%}
    {%- set after = hw_newest_commit(target.relation) -%}
    {%- do record.update({'undo': hw_undo_of(record, target.relation)}) -%}
    {%- do hw_finish_operation(record, after.version) -%}
    {{ print(operation ~ ': done, ' ~ target.name ~ ' is at version ' ~ after.version ~ '; undo:\n  '
        ~ hw_undo_command([record.undo]) ~ '\nThe undo also reverts later writes to the table.') }}
{% endmacro %}
