{% macro delete_where(table, predicate, reason=none, dry_run=true, allow_all=false) %}
    {%- if not dry_run -%}{%- do hw_require_reason('delete_where', reason) -%}{%- endif -%}
    {%- set target = hw_target('delete_where', table) -%}
    {%- set found = hw_matched('delete_where', target, predicate, allow_all) -%}
    {%- if not found.matched -%}
        {{ hw_raise('HW_NO_ROW_MATCHES', 'delete_where: no row of ' ~ target.name ~ ' is taken by ' ~ predicate
            ~ '. Nothing was changed.') }}
    {%- endif -%}
    {%- set lines = [
        hw_target_line(target, found.rows),
        '  - ' ~ found.matched ~ ' rows: ' ~ found.whole ~ ' files go as a whole, ' ~ found.parts ~ ' lose rows',
    ] -%}
    {%- if target.node and target.node.resource_type == 'model' -%}
        {%- do lines.append('  a rebuild of ' ~ target.name ~ ' would bring them back: what should be gone for good is '
            ~ 'deleted from its inputs') -%}
    {%- endif -%}
    {%- if hw_proceed('delete_where', lines + hw_followers_line(target), dry_run) -%}
        {%- do hw_run_operation('delete_where', target, reason, {'predicate': predicate, 'rows': found.matched},
            ['delete from ' ~ target.relation ~ ' where (' ~ hw_bracketed(predicate) ~ ')']) -%}
    {%- endif -%}
{% endmacro %}
