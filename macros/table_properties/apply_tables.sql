{#- Brings tables to what the project declares. Changes no rows, so it asks for no dry run of its own: plan_tables is that. What can only be
    had by rewriting a table (another partitioning) is done where `rewrite` says so, in one commit that a restore undoes. -#}
{% macro apply_tables(select=none, reason=none, rewrite=false) %}
    {%- do check_tables() -%}
    {%- set found = _tables_that_differ(select) -%}
    {{ print(_plan_lines(found) | join('\n')) }}
    {%- set left = [] -%}
    {%- for name, table in found.differing.items() if table.changes | selectattr('rewrite') | list and not rewrite -%}{%- do left.append(name) -%}{%- endfor -%}
    {%- set works = {} -%}
    {%- for name, table in found.differing.items() if rewrite or table.changes | rejectattr('rewrite') | list -%}{%- do works.update({name: table}) -%}{%- endfor -%}
    {%- if rewrite and not reason -%}{%- do _need_reason('apply_tables', reason) -%}{%- endif -%}
    {%- if works -%}
        {%- set undo = [] -%}
        {%- for name, table in works.items() -%}
            {%- set rewritten = rewrite and table.changes | selectattr('rewrite') | list -%}
            {%- set version = _newest_commit(table.relation).version -%}
            {%- set back = ['restore table ' ~ table.relation ~ ' to version as of ' ~ version] if rewritten else _drift_sql(table.relation, _drift_back(table.changes)) -%}
            {%- set operation = _begin('apply_tables', name, reason or 'as declared', {'rewrite': rewrite}, version, table.detail, back | join('; ')) -%}
            {%- if rewritten -%}
                {%- do run_query(_rewrite_sql(table)) -%}
                {%- for name, expression in _as_mapping(table.detail['properties']).items() if name.startswith('delta.constraints.') -%}
                    {%- do run_query('alter table ' ~ table.relation ~ ' add constraint ' ~ adapter.quote(name.removeprefix('delta.constraints.')) ~ ' check (' ~ expression ~ ')') -%}
                {%- endfor -%}
            {%- endif -%}
            {%- for statement in _drift_sql(table.relation, table.changes) -%}
                {%- do run_query(statement) -%}
            {%- endfor -%}
            {%- do _end(operation, _newest_commit(table.relation).version) -%}
            {%- do undo.extend(back) -%}
        {%- endfor -%}
        {{ print('applied to ' ~ works | length ~ ' tables; undo:\n  ' ~ undo | join(';\n  ') ~ ';') }}
    {%- endif -%}
    {%- if left -%}
        {{ print('left, since they would be rewritten (rewrite: true does it): ' ~ left | join(', ')) }}
    {%- endif -%}
{% endmacro %}


{#- The same rows under another partitioning or clustering, in one commit; every property is kept. Checks are not, so they are added again. -#}
{% macro _rewrite_sql(table) %}
    {%- set kept = {} -%}
    {%- for name, value in _as_mapping(table.detail['properties']).items() if not name.startswith('delta.constraints.') -%}{%- do kept.update({name: value}) -%}{%- endfor -%}
    {{ return(_replace_table_sql(table.relation, table.declared, table.detail['description'], kept, table.relation)) }}
{% endmacro %}


{#- A table's rows replaced by those of another one, or of itself, under the partitioning and clustering that it is declared with. -#}
{% macro _replace_table_sql(relation, declared, comment, properties, rows_of) %}
    {{ return('create or replace table ' ~ relation ~ ' using delta'
        ~ (' partitioned by (' ~ _quoted(declared.partition_by) | join(', ') ~ ')' if declared.partition_by else '')
        ~ (' cluster by (' ~ _quoted(declared.cluster_by) | join(', ') ~ ')' if declared.cluster_by else '')
        ~ (' comment ' ~ string_literal(comment) if comment else '')
        ~ ' tblproperties (' ~ _assignments(properties) ~ ') as select * from ' ~ rows_of) }}
{% endmacro %}
