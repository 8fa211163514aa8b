{#- Brings tables to what the project declares; `dry_run` shows what plan_tables shows. What can only be had by rewriting a table (another partitioning) is
    done where `rewrite` says so, in one commit that a restore undoes. -#}
{% macro apply_tables(select=none, reason=none, rewrite=false, dry_run=true) %}
    {%- if not dry_run -%}{%- do hw_require_reason('apply_tables', reason) -%}{%- endif -%}
    {%- do check_tables() -%}
    {%- set found = hw_tables_that_differ(select) -%}
    {{ print(hw_plan_lines(found) | join('\n')) }}
    {%- set left = [] -%}
    {%- set works = {} -%}
    {%- for name, table in found.differing.items() -%}
        {%- set rewritten = table.changes | selectattr('rewrite') | list -%}
        {%- if rewritten and not rewrite -%}{%- do left.append(name) -%}{%- endif -%}
        {%- if rewritten and rewrite -%}{%- do hw_refuse_pending('apply_tables', name, table.detail['properties']) -%}{%- endif -%}
        {%- if rewrite or table.changes | rejectattr('rewrite') | list -%}{%- do works.update({name: table}) -%}{%- endif -%}
    {%- endfor -%}
    {%- if works and dry_run -%}
        {{ print('apply_tables: a dry run, nothing was changed; dry_run: false and a reason do it') }}
    {%- elif works -%}
        {%- set undo = [] -%}
        {%- for name, table in works.items() -%}
            {%- do undo.extend(hw_apply_to(name, table, reason, rewrite and table.changes | selectattr('rewrite') | list | length > 0)) -%}
        {%- endfor -%}
        {{ print('applied to ' ~ works | length ~ ' tables; undo:\n  ' ~ undo | join(';\n  ') ~ ';') }}
    {%- endif -%}
    {%- if left -%}
        {{ print('left, since they would be rewritten (rewrite: true does it): ' ~ left | join(', ')) }}
    {%- endif -%}
{% endmacro %}


{#- Returns the statements that undo it. -#}
{% macro hw_apply_to(name, table, reason, rewritten) %}
    {%- set version = hw_newest_commit(table.relation).version -%}
    {%- set back = [hw_restore_sql(table.relation, version)] if rewritten else hw_drift_sql(table.relation, hw_drift_back(table.changes)) -%}
    {%- set statements = ([hw_rewrite_sql(table)] if rewritten else []) + hw_drift_sql(table.relation, table.changes) -%}
    {%- set operation = hw_begin_operation('apply_tables', name, reason, {'rewrite': rewritten}, version, table.detail, back | join('; ')) -%}
    {%- for statement in statements -%}{%- do run_query(statement) -%}{%- endfor -%}
    {%- if rewritten -%}
        {%- set back = [hw_undo_of(operation, table.relation)] -%}
        {%- do operation.update({'undo': back[0]}) -%}
    {%- endif -%}
    {%- do hw_finish_operation(operation, hw_newest_commit(table.relation).version) -%}
    {{ return(back) }}
{% endmacro %}


{#- The same rows under another partitioning or clustering, in one commit; every property is kept. -#}
{% macro hw_rewrite_sql(table) %}
    {%- set kept = {} -%}
    {%- for name, value in hw_as_mapping(table.detail['properties']).items() if not name.startswith('delta.constraints.') -%}{%- do kept.update({name: value}) -%}{%- endfor -%}
    {{ return(hw_replace_table_sql(table.relation, table.declared, table.detail['description'], kept, table.relation, hw_constraints_kept(table.relation, table.detail))) }}
{% endmacro %}
