{#- Brings tables to what the project declares; `dry_run` shows what plan_tables shows. What can only be had by rewriting a table (another partitioning) is
    done where `rewrite` says so, in one commit that a restore undoes. -#}
{% macro apply_tables(select=none, reason=none, rewrite=false, dry_run=true) %}
    {%- if not dry_run -%}{%- do _need_reason('apply_tables', reason) -%}{%- endif -%}
    {%- do check_tables() -%}
    {%- set found = _tables_that_differ(select) -%}
    {{ print(_plan_lines(found) | join('\n')) }}
    {%- set left = [] -%}
    {%- set works = {} -%}
    {%- for name, table in found.differing.items() -%}
        {%- set rewritten = table.changes | selectattr('rewrite') | list -%}
        {%- if rewritten and not rewrite -%}{%- do left.append(name) -%}{%- endif -%}
        {%- if rewritten and rewrite -%}{%- do _refuse_pending('apply_tables', name, table.detail['properties']) -%}{%- endif -%}
        {%- if rewrite or table.changes | rejectattr('rewrite') | list -%}{%- do works.update({name: table}) -%}{%- endif -%}
    {%- endfor -%}
    {%- if works and dry_run -%}
        {{ print('apply_tables: a dry run, nothing was changed; dry_run: false and a reason do it') }}
    {%- elif works -%}
        {%- set undo = [] -%}
        {%- for name, table in works.items() -%}
            {%- do undo.extend(_apply_to(name, table, reason, rewrite and table.changes | selectattr('rewrite') | list | length > 0)) -%}
        {%- endfor -%}
        {{ print('applied to ' ~ works | length ~ ' tables; undo:\n  ' ~ undo | join(';\n  ') ~ ';') }}
    {%- endif -%}
    {%- if left -%}
        {{ print('left, since they would be rewritten (rewrite: true does it): ' ~ left | join(', ')) }}
    {%- endif -%}
{% endmacro %}


{#- Returns the statements that undo it. -#}
{% macro _apply_to(name, table, reason, rewritten) %}
    {%- set version = _newest_commit(table.relation).version -%}
    {%- set back = [_restore_sql(table.relation, version)] if rewritten else _drift_sql(table.relation, _drift_back(table.changes)) -%}
    {%- set statements = ([_rewrite_sql(table)] if rewritten else []) + _drift_sql(table.relation, table.changes) -%}
    {%- set operation = _begin('apply_tables', name, reason, {'rewrite': rewritten}, version, table.detail, back | join('; ')) -%}
    {%- for statement in statements -%}{%- do run_query(statement) -%}{%- endfor -%}
    {%- if rewritten -%}
        {%- set back = [_undo_of(operation, table.relation)] -%}
        {%- do operation.update({'undo': back[0]}) -%}
    {%- endif -%}
    {%- do _end(operation, _newest_commit(table.relation).version) -%}
    {{ return(back) }}
{% endmacro %}


{#- The same rows under another partitioning or clustering, in one commit; every property is kept. -#}
{% macro _rewrite_sql(table) %}
    {%- set kept = {} -%}
    {%- for name, value in _as_mapping(table.detail['properties']).items() if not name.startswith('delta.constraints.') -%}{%- do kept.update({name: value}) -%}{%- endfor -%}
    {{ return(_replace_table_sql(table.relation, table.declared, table.detail['description'], kept, table.relation, _kept_checks(table.relation, table.detail))) }}
{% endmacro %}


{#- A table's rows replaced by those of another one, or of itself, under the partitioning and clustering that it is declared with. `checks`: of _kept_checks. -#}
{% macro _replace_table_sql(relation, declared, comment, properties, rows_of, checks) %}
    {{ return('create or replace table ' ~ relation ~ ' using delta'
        ~ (' partitioned by (' ~ _quoted(declared.partition_by) | join(', ') ~ ')' if declared.partition_by else '')
        ~ (' cluster by (' ~ _quoted(declared.cluster_by) | join(', ') ~ ')' if declared.cluster_by else '')
        ~ (' comment ' ~ string_literal(comment) if comment else '')
        ~ ' tblproperties (' ~ _assignments(dict(properties, **checks)) ~ ') as select * from ' ~ rows_of) }}
{% endmacro %}


{#- What a table holds its rows to, as properties of the one that replaces it in the same commit: its checks, whoever declared them, and NOT NULL as checks, since
    CREATE OR REPLACE TABLE … AS SELECT makes every column nullable, and Delta does not add NOT NULL to a column. -#}
{% macro _kept_checks(relation, detail) %}
    {%- set checks = {} -%}
    {%- for name, expression in _as_mapping(detail['properties']).items() if name.startswith('delta.constraints.') -%}{%- do checks.update({name: expression}) -%}{%- endfor -%}
    {%- for field in _table_state('', relation).fields if not field.nullable -%}
        {%- do checks.update({'delta.constraints.' ~ field.name | lower ~ '_not_null': _quote(field.name) ~ ' is not null'}) -%}
    {%- endfor -%}
    {{ return(checks) }}
{% endmacro %}
