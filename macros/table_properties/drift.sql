{#- Returns the differences between a table and its declaration, as a list of `TableDifference`s (scripts/headwaters/tables/drift.py), and
    their statements. `detail` is the table's row of DESCRIBE DETAIL. -#}
{% macro hw_drift(declared, detail) %}
    {%- set drift = adapter.drift.drift_of(declared, detail) -%}
    {%- if drift.problem -%}{{ hw_raise('HW_CLUSTERED_TABLE', drift.problem) }}{%- endif -%}
    {{ return(drift.changes) }}
{% endmacro %}


{#- Returns the columns whose comment differs from their description. -#}
{% macro hw_comment_drift(relation, columns) %}
    {%- if not adapter.drift.described_columns(columns) -%}{{ return([]) }}{%- endif -%}
    {{ return(adapter.drift.comment_drift(columns, run_query('describe table ' ~ relation).rows)) }}
{% endmacro %}


{#- Returns the statements of a list of changes: one for each check and clustering, one for all comments of columns, one that unsets
    properties, and one that sets the others. Each is one line, since the undo is printed. -#}
{% macro hw_drift_sql(relation, changes) %}
    {%- set statements = [] -%}
    {%- for change in changes | selectattr('kind', 'equalto', 'check') -%}
        {%- if change.before is not none -%}{%- do statements.append(hw_drop_check_sql(relation, change.name)) -%}{%- endif -%}
        {%- if change.after is not none -%}{%- do statements.append(hw_add_check_sql(relation, change.name, change.after)) -%}{%- endif -%}
    {%- endfor -%}
    {%- for change in changes | selectattr('kind', 'equalto', 'clustering') -%}
        {%- do statements.append(hw_cluster_by_sql(relation, change.after)) -%}
    {%- endfor -%}
    {%- set columns = changes | selectattr('kind', 'equalto', 'column') | list -%}
    {%- if columns -%}{%- do statements.append(hw_comment_columns_sql(relation, columns)) -%}{%- endif -%}
    {%- set properties = changes | selectattr('kind', 'equalto', 'property') | list -%}
    {%- set unset = properties | selectattr('after', 'none') | map(attribute='name') | list -%}
    {%- if unset -%}{%- do statements.append(hw_unset_properties_sql(relation, unset)) -%}{%- endif -%}
    {%- set assigned = {} -%}
    {%- for change in properties | rejectattr('after', 'none') -%}{%- do assigned.update({change.name: change.after}) -%}{%- endfor -%}
    {%- if assigned -%}{%- do statements.append(hw_set_properties_sql(relation, assigned)) -%}{%- endif -%}
    {{ return(statements) }}
{% endmacro %}


{#- Returns the statements that remove the deletion vectors of a table, before changes that turn them off: a purge, a checkpoint after it,
    and the former interval of checkpoints. The list is empty for other changes. -#}
{% macro hw_purge_sql(relation, changes, detail) %}
    {%- if not adapter.drift.purges(changes, detail) -%}{{ return([]) }}{%- endif -%}
    {%- set name = 'delta.checkpointInterval' -%}
    {%- set interval = adapter.commits.as_mapping(detail['properties']).get(name) -%}
    {%- set restored = hw_set_properties_sql(relation, {name: interval}) if interval else hw_unset_properties_sql(relation, [name]) -%}
    {{ return(['reorg table ' ~ relation ~ ' apply (purge)', hw_set_properties_sql(relation, {name: '1'}), restored]) }}
{% endmacro %}


{% macro hw_drop_check_sql(relation, name) -%}
    alter table {{ relation }} drop constraint {{ hw_quote(name) }}
{%- endmacro %}


{% macro hw_add_check_sql(relation, name, expression) -%}
    alter table {{ relation }} add constraint {{ hw_quote(name) }} check ({{ hw_ended(expression) }})
{%- endmacro %}


{% macro hw_cluster_by_sql(relation, columns) -%}
    alter table {{ relation }} cluster by {% if columns %}({{ hw_quoted(columns) | join(', ') }}){% else %}none{% endif %}
{%- endmacro %}


{% macro hw_comment_columns_sql(relation, changes) -%}
    alter table {{ relation }} alter column
    {%- for change in changes %} {{ hw_quote(change.name) }} comment {{ hw_literal(change.after or '') }}
        {{- ',' if not loop.last }}
    {%- endfor -%}
{%- endmacro %}


{% macro hw_unset_properties_sql(relation, names) -%}
    alter table {{ relation }} unset tblproperties if exists (
    {%- for name in names %}{{ hw_literal(name) }}{{ ', ' if not loop.last }}{% endfor -%}
    )
{%- endmacro %}


{#- Drops the checks that are no longer declared or whose expression changed: rows of the new SQL need not meet them. -#}
{% macro hw_drop_other_checks(relation, detail) %}
    {%- for change in hw_drift(adapter.drift.declared_table(model), detail) if change.kind == 'check' and change.before is not none -%}
        {%- do run_query(hw_drop_check_sql(relation, change.name)) -%}
    {%- endfor -%}
{% endmacro %}


{#- Reconciles a model's table with its declaration before a run writes to it; without differences it sends no statement. -#}
{% macro hw_reconcile_table(relation, detail) %}
    {%- set changes = hw_drift(adapter.drift.declared_table(model), detail) | rejectattr('rewrite') | list -%}
    {%- for statement in hw_purge_sql(relation, changes, detail) + hw_drift_sql(relation, changes) -%}
        {%- do run_query(statement) -%}
    {%- endfor -%}
    {%- if changes | selectattr('sign') | list -%}
        {%- do log(relation ~ ' was reconciled with its declaration:\n' ~ adapter.drift.drift_lines(changes) | join('\n'), info=true) -%}
    {%- endif -%}
{% endmacro %}
