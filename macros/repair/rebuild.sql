{#- A full refresh beside the table, compared with it, and only then put in its place, in one commit. A table that is right is left alone. -#}
{% macro rebuild(model, reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do _need_reason('rebuild', reason) -%}{%- endif -%}
    {%- set target = _target('rebuild', model) -%}
    {%- set node = target.node -%}
    {%- if not node or node.resource_type != 'model' or node.config.get('incremental_strategy') not in ['change_feed', 'affected_keys', 'signed_sum', 'history'] -%}
        {{ exceptions.raise_compiler_error('rebuild: ' ~ target.name ~ ' is not the table of a model with change_feed, affected_keys, signed_sum or history. Nothing was changed.') }}
    {%- endif -%}
    {%- set sql = _followed_sql(render(node.raw_code), node.config) -%}
    {%- set inputs = _inputs_of(sql) -%}
    {%- set columns = adapter.get_columns_in_relation(target.found) -%}
    {%- set anew = _full_refresh_sql(node.config.incremental_strategy, sql, node.config, columns) -%}
    {%- set stage = _quoted_name(target.schema, _stage_name(target.identifier)) -%}
    {%- do _create_stage(stage, anew) -%}
    {%- do _refuse_failing('rebuild', target, stage, stage) -%}
    {%- set types = run_query('select typeof((select struct(*) from ' ~ target.relation ~ ' limit 1)) as held, typeof((select struct(*) from ' ~ stage ~ ' limit 1)) as anew').rows[0] -%}
    {%- set lines = [] -%}
    {%- if types['held'] != types['anew'] and types['held'] != 'void' and types['anew'] != 'void' -%}
        {%- do lines.append('  ~ columns: ' ~ types['held'] ~ ' -> ' ~ types['anew']) -%}
        {%- set counts = run_query('select (select count(*) from ' ~ target.relation ~ ') as held, (select count(*) from ' ~ stage ~ ') as anew').rows[0] -%}
        {%- set gone, come = counts['held'] | int, counts['anew'] | int -%}
    {%- else -%}
        {%- set counts = run_query('select (select count(*) from ' ~ target.relation ~ ') as held, (select count(*) from ' ~ stage ~ ') as anew, (select count(*) from (select * from ' ~ target.relation
            ~ ' except all select * from ' ~ stage ~ ')) as gone, (select count(*) from (select * from ' ~ stage ~ ' except all select * from ' ~ target.relation ~ ')) as come').rows[0] -%}
        {%- set gone, come = counts['gone'] | int, counts['come'] | int -%}
    {%- endif -%}
    {%- do lines.extend(['  - ' ~ gone ~ ' rows that a full refresh does not give', '  + ' ~ come ~ ' rows that only a full refresh gives']) -%}
    {%- if not gone and not come -%}
        {{ print(_target_line(target, counts['held']) ~ '\nrebuild: the table is what a full refresh gives, nothing to do') }}
    {%- elif _go_on('rebuild', [_target_line(target, counts['held'])] + lines + _followers_line(target), dry_run) -%}
        {%- set declared = _declared_table(node) -%}
        {%- set properties = dict(_created_properties(node.config), **_state_properties(node.config.incremental_strategy, sql, inputs, node.config)) -%}
        {#- the columns of the table come first: with them their comments -#}
        {%- set rows_of = stage if lines[0].startswith('  ~ columns') else '(select * from ' ~ target.relation ~ ' where false union all select * from ' ~ stage ~ ')' -%}
        {%- set statement = _replace_table_sql(target.relation, declared, declared.comment or target.detail['description'], properties, rows_of, _kept_checks(target.relation, target.detail)) -%}
        {%- do _run_recorded('rebuild', target, reason, {'removed': gone, 'added': come}, [statement]) -%}
    {%- endif -%}
    {%- do _drop_stage(stage) -%}
{% endmacro %}
