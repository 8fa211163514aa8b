{#- A full refresh beside the table, compared with it, and only then put in its place, in one commit. A table that is
    right is left alone. -#}
{% macro rebuild(model, reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do hw_require_reason('rebuild', reason) -%}{%- endif -%}
    {%- set target = hw_target('rebuild', model) -%}
    {%- set node = target.node -%}
    {%- if not node or node.resource_type != 'model' or not adapter.strategy_of(node.config) -%}
        {{ exceptions.raise_compiler_error('rebuild: ' ~ target.name ~ ' is not the table of a model with change_feed, affected_keys, signed_sum or history. Nothing was changed.') }}
    {%- endif -%}
    {%- set sql = hw_followed_sql(render(node.raw_code), node.config) -%}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- set columns = adapter.get_columns_in_relation(target.found) -%}
    {%- set anew = hw_full_refresh_sql(adapter.strategy_of(node.config), sql, node.config, columns) -%}
    {%- set stage = hw_quoted_name(target.schema, hw_staging_name(target.identifier)) -%}
    {%- do hw_create_staging_table(stage, anew) -%}
    {%- do hw_refuse_failing('rebuild', target, stage, stage) -%}
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
        {{ print(hw_target_line(target, counts['held']) ~ '\nrebuild: the table is what a full refresh gives, nothing to do') }}
    {%- elif hw_proceed('rebuild', [hw_target_line(target, counts['held'])] + lines + hw_followers_line(target), dry_run) -%}
        {%- set declared = hw_declared_table(node) -%}
        {%- set properties = dict(hw_created_properties(node.config), **hw_state_properties(sql, inputs, node.config)) -%}
        {#- the columns of the table come first: with them their comments -#}
        {%- set rows_of = stage if lines[0].startswith('  ~ columns') else '(select * from ' ~ target.relation ~ ' where false union all select * from ' ~ stage ~ ')' -%}
        {%- set statement = hw_replace_table_sql(target.relation, declared, declared.comment or target.detail['description'], properties, rows_of, hw_constraints_kept(target.relation, target.detail)) -%}
        {%- do hw_run_operation('rebuild', target, reason, {'removed': gone, 'added': come}, [statement]) -%}
    {%- endif -%}
    {%- do hw_drop_staging_table(stage) -%}
{% endmacro %}
