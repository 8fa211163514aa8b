{% macro delete_where(table, predicate, reason=none, dry_run=true, allow_all=false) %}
    {%- if not dry_run -%}{%- do _need_reason('delete_where', reason) -%}{%- endif -%}
    {%- set target = _target('delete_where', table) -%}
    {%- set found = _matched('delete_where', target, predicate, allow_all) -%}
    {%- if not found.matched -%}
        {{ exceptions.raise_compiler_error('delete_where: no row of ' ~ target.name ~ ' is taken by ' ~ predicate ~ '. Nothing was changed.') }}
    {%- endif -%}
    {%- set lines = [
        _target_line(target, found.rows),
        '  - ' ~ found.matched ~ ' rows: ' ~ found.whole ~ ' files go as a whole, ' ~ found.parts ~ ' lose rows',
    ] -%}
    {%- if target.node and target.node.resource_type == 'model' -%}
        {%- do lines.append('  a rebuild of ' ~ target.name ~ ' would bring them back: what should be gone for good is deleted from its inputs') -%}
    {%- endif -%}
    {%- if _go_on('delete_where', lines + _followers_line(target), dry_run) -%}
        {%- do _run_recorded('delete_where', target, reason, {'predicate': predicate}, ['delete from ' ~ target.relation ~ ' where ' ~ predicate]) -%}
    {%- endif -%}
{% endmacro %}
