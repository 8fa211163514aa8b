{#- Prints the plan of apply_tables; changes nothing. It needs one statement for each table, and one more if comments of columns are
    declared. -#}
{% macro plan_tables(select=none) %}
    {%- do check_tables() -%}
    {%- set found = hw_tables_that_differ(select) -%}
    {{ print(hw_plan_lines(found) | join('\n')) }}
    {{ return(found.differing) }}
{% endmacro %}


{#- Compares each table of the selection. Returns differing (name → relation, changes, detail, declared), and the names of the other tables:
    same (as declared), absent (not built) and foreign (not a Delta table). -#}
{% macro hw_tables_that_differ(select) %}
    {%- set found = {'differing': {}, 'same': [], 'absent': [], 'foreign': []} -%}
    {%- for name, node in hw_table_nodes(select).items() -%}
        {%- set declared = adapter.drift.declared_table(node) -%}
        {%- set relation = adapter.get_relation(none, declared.schema, declared.identifier) -%}
        {%- if relation is none -%}
            {%- do found.absent.append(name) -%}
        {%- elif not relation.is_delta -%}
            {%- do found.foreign.append(name) -%}
        {%- else -%}
            {%- set detail = run_query('describe detail ' ~ hw_named(relation)).rows[0] -%}
            {%- set changes = hw_drift(declared, detail) -%}
            {%- if (node.config.get('persist_docs') or {}).get('columns') -%}
                {%- set changes = changes + hw_comment_drift(hw_named(relation), node.columns) -%}
            {%- endif -%}
            {%- if changes -%}
                {%- set table = {'relation': hw_named(relation), 'changes': changes, 'detail': detail, 'declared': declared} -%}
                {%- do found.differing.update({name: table}) -%}
            {%- else -%}
                {%- do found.same.append(name) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{% macro hw_plan_lines(found) %}
    {%- set changes = {} -%}
    {%- for name, table in found.differing.items() -%}{%- do changes.update({name: table.changes}) -%}{%- endfor -%}
    {{ return(adapter.drift.plan_lines(changes, found.same, found.foreign, found.absent)) }}
{% endmacro %}
