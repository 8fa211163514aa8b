{% macro restore(table, version=none, timestamp=none, reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do _need_reason('restore', reason) -%}{%- endif -%}
    {%- set target = _target('restore', table) -%}
    {%- set wanted = _version_of('restore', target.relation, version, timestamp) -%}
    {%- if wanted == target.version -%}
        {{ print('restore: ' ~ target.name ~ ' is at version ' ~ wanted ~ ' already, nothing to do') }}
        {{ return(none) }}
    {%- endif -%}
    {%- set rows = run_query('select (select count(*) from ' ~ target.relation ~ ') as now, (select count(*) from ' ~ target.relation ~ ' version as of ' ~ wanted ~ ') as back').rows[0] -%}
    {%- set lines = [_target_line(target, rows['now']), '  ~ back to version ' ~ wanted ~ ', which has ' ~ rows['back'] ~ ' rows'] -%}
    {%- for commit in _history(target.relation, target.version - wanted + 20) if commit.version > wanted -%}
        {%- if _commit_effect(commit).rows > 0 -%}
            {%- do lines.append('  - version ' ~ commit.version ~ ', ' ~ _utc(commit.at) ~ ': ' ~ commit.operation) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if _go_on('restore', lines + _followers_line(target), dry_run) -%}
        {%- do _run_recorded('restore', target, reason, {'version': wanted}, [_restore_sql(target.relation, wanted)]) -%}
    {%- endif -%}
{% endmacro %}
