{% macro restore(table, version=none, timestamp=none, reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do hw_require_reason('restore', reason) -%}{%- endif -%}
    {%- set target = hw_target('restore', table) -%}
    {%- set wanted = hw_version_of('restore', target.relation, version, timestamp) -%}
    {%- if wanted == target.version -%}
        {{ print('restore: ' ~ target.name ~ ' is at version ' ~ wanted ~ ' already, nothing to do') }}
        {{ return(none) }}
    {%- endif -%}
    {%- set rows = run_query(hw_rows_now_and_back_sql(target.relation, wanted)).rows[0] -%}
    {%- set lines = [hw_target_line(target, rows['now']), '  ~ back to version ' ~ wanted ~ ', which has ' ~ rows['back'] ~ ' rows'] -%}
    {%- for commit in hw_describe_history(target.relation, target.version - wanted + 20) if commit.version > wanted -%}
        {%- do lines.append('  - version ' ~ commit.version ~ ', ' ~ hw_utc(commit.at) ~ ': ' ~ commit.operation
            ~ (', without a change of rows' if not commit.effect.rows else '')) -%}
    {%- endfor -%}
    {%- if hw_proceed('restore', lines + hw_followers_line(target), dry_run) -%}
        {%- do hw_run_operation('restore', target, reason, {'version': wanted}, [hw_restore_sql(target.relation, wanted)]) -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_rows_now_and_back_sql(relation, version) -%}
    select
        (select count(*) from {{ relation }}) as now,
        (select count(*) from {{ relation }} version as of {{ version }}) as back
{%- endmacro %}
