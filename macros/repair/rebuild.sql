{#- Recomputes a table into a staging table, compares the two, and replaces the table in one commit if they differ. -#}
{% macro rebuild(model, reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do hw_require_reason('rebuild', reason) -%}{%- endif -%}
    {%- set target = hw_target('rebuild', model) -%}
    {%- set node = target.node -%}
    {%- if not node or node.resource_type != 'model' or not adapter.analysis.strategy_of(node.config) -%}
        {{ hw_raise('HW_NO_MODEL_OF_TABLE', 'rebuild: ' ~ target.name ~ ' is not the table of a model with one of the strategies '
            ~ adapter.analysis.strategy_names() | join(', ') ~ '. Nothing was changed.') }}
    {%- endif -%}
    {%- set rebuilt = adapter.runs.rebuilt(context, node, target.found) -%}
    {%- set stage = hw_quoted_name(target.schema, hw_staging_name(target.identifier)) -%}
    {%- do hw_create_staging_table(stage, rebuilt.sql) -%}
    {%- do hw_refuse_failing('rebuild', target, stage, stage) -%}
    {%- set found = hw_compared_with_staged(target.relation, stage) -%}
    {%- if not found.removed and not found.added -%}
        {{ print(hw_target_line(target, found.rows) ~ '\nrebuild: the table is what a full refresh gives, nothing to do') }}
    {%- elif hw_proceed('rebuild', [hw_target_line(target, found.rows)] + found.lines + hw_followers_line(target), dry_run) -%}
        {%- set declared = adapter.drift.declared_table(node) -%}
        {%- set properties = dict(adapter.properties.created_properties(rebuilt.config), **rebuilt.state_properties()) -%}
        {%- set rows_of = stage if found.other_columns else hw_under_columns_of_sql(target.relation, stage) -%}
        {%- set statement = hw_replace_table_sql(target.relation, declared, declared.comment or target.detail['description'],
            properties, rows_of, hw_constraints_kept(target.relation, target.detail)) -%}
        {%- do hw_run_operation('rebuild', target, reason, {'removed': found.removed, 'added': found.added}, [statement]) -%}
    {%- endif -%}
    {%- do hw_drop_staging_table(stage) -%}
{% endmacro %}


{#- Selects rows under the columns of a table, which keeps the comments of the columns. -#}
{% macro hw_under_columns_of_sql(relation, rows) -%}
(select * from {{ relation }} where false union all select * from {{ rows }})
{%- endmacro %}


{#- Compares a table with the staged rows: rows (of the table), removed, added, other_columns, and lines that describe the difference. -#}
{% macro hw_compared_with_staged(relation, stage) %}
    {%- set types = run_query(hw_types_sql(relation, stage)).rows[0] -%}
    {%- set other_columns = types['present'] != types['staged'] and types['present'] != 'void' and types['staged'] != 'void' -%}
    {%- if other_columns -%}
        {%- set counts = run_query(hw_counts_sql(relation, stage)).rows[0] -%}
        {%- set lines = ['  ~ columns: ' ~ types['present'] ~ ' -> ' ~ types['staged']] -%}
    {%- else -%}
        {%- set counts = run_query(hw_differences_sql(relation, stage)).rows[0] -%}
        {%- set lines = [] -%}
    {%- endif -%}
    {%- set removed, added = counts['removed'] | int, counts['added'] | int -%}
    {%- do lines.append('  - ' ~ removed ~ ' rows that a full refresh does not give') -%}
    {%- do lines.append('  + ' ~ added ~ ' rows that only a full refresh gives') -%}
    {{ return({'rows': counts['present'], 'removed': removed, 'added': added, 'other_columns': other_columns, 'lines': lines}) }}
{% endmacro %}


{% macro hw_types_sql(relation, stage) -%}
select {{ hw_type_of('select * from ' ~ relation) }} as present, {{ hw_type_of('select * from ' ~ stage) }} as staged
{%- endmacro %}


{#- If the columns differ, all rows count as removed and added. -#}
{% macro hw_counts_sql(relation, stage) -%}
select present, present as removed, added
from (select (select count(*) from {{ relation }}) as present, (select count(*) from {{ stage }}) as added)
{%- endmacro %}


{% macro hw_differences_sql(relation, stage) -%}
select
    (select count(*) from {{ relation }}) as present,
    (select count(*) from (select * from {{ relation }} except all select * from {{ stage }})) as removed,
    (select count(*) from (select * from {{ stage }} except all select * from {{ relation }})) as added
{%- endmacro %}
