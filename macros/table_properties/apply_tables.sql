{#- Reconciles tables with the declarations of the project; `dry_run` prints the output of plan_tables. A changed partitioning needs a
    rewrite of the table: with `rewrite`, it is one commit that a restore undoes. -#}
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
        {%- for name, table in works.items() -%}{%- do undo.extend(hw_apply_to(name, table, reason, rewrite)) -%}{%- endfor -%}
        {{ print('applied to ' ~ works | length ~ ' tables; undo:\n  ' ~ hw_undo_command(undo)) }}
    {%- endif -%}
    {%- if left -%}
        {{ print('left, since they would be rewritten (rewrite: true does it): ' ~ left | join(', ')) }}
    {%- endif -%}
{% endmacro %}


{#- Returns the statements that undo it. -#}
{% macro hw_apply_to(name, table, reason, rewrite) %}
    {%- set rewritten = rewrite and table.changes | selectattr('rewrite') | list | length > 0 -%}
    {%- set version = hw_newest_commit(table.relation).version -%}
    {%- set restore = [hw_restore_sql(table.relation, version)] -%}
    {%- set undo = restore if rewritten else hw_drift_sql(table.relation, adapter.drift.undo_of(table.changes)) -%}
    {%- set before = [hw_rewrite_sql(table)] if rewritten else hw_purge_sql(table.relation, table.changes, table.detail) -%}
    {%- set statements = before + hw_drift_sql(table.relation, table.changes) -%}
    {%- set arguments = {'rewrite': rewritten} -%}
    {%- set operation = hw_begin_operation('apply_tables', name, reason, arguments, version, table.detail, undo | join('; ')) -%}
    {%- for statement in statements -%}{%- do run_query(statement) -%}{%- endfor -%}
    {%- if rewritten -%}
        {%- set undo = [hw_undo_of(operation, table.relation)] -%}
        {%- do operation.update({'undo': undo[0]}) -%}
    {%- endif -%}
    {%- do hw_finish_operation(operation, hw_newest_commit(table.relation).version) -%}
    {{ return(undo) }}
{% endmacro %}


{#- Rewrites the rows of a table under another partitioning or clustering, in one commit; it keeps every property but the note of its
    layout. -#}
{% macro hw_rewrite_sql(table) %}
    {%- set kept = {} -%}
    {%- for name, value in adapter.commits.as_mapping(table.detail['properties']).items()
        if not name.startswith('delta.constraints.') and name != 'headwaters.layout' -%}
        {%- do kept.update({name: value}) -%}
    {%- endfor -%}
    {%- set checks = hw_constraints_kept(table.relation, table.detail) -%}
    {{ return(hw_replace_table_sql(table.relation, table.declared, table.detail['description'], kept, table.relation, checks)) }}
{% endmacro %}
