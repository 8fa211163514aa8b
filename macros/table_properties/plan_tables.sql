{#- What apply_tables would do, in the style of a plan; changes nothing. One statement for each table, and one more where the comments of its columns are declared. -#}
{% macro plan_tables(select=none) %}
    {%- do check_tables() -%}
    {%- set found = hw_tables_that_differ(select) -%}
    {{ print(hw_plan_lines(found) | join('\n')) }}
    {{ return(found.differing) }}
{% endmacro %}


{#- For each table of the selection how it differs. Returns differing (name → relation, version, changes), same (a count), and absent and
    foreign (names of what is not built, and of what is no Delta table). -#}
{% macro hw_tables_that_differ(select) %}
    {%- set found = {'differing': {}, 'same': [], 'absent': [], 'foreign': []} -%}
    {%- for name, node in hw_table_nodes(select).items() -%}
        {%- set declared = hw_declared_table(node) -%}
        {%- set relation = adapter.get_relation(none, declared.relation.schema, declared.relation.identifier) -%}
        {%- if relation is none -%}
            {%- do found.absent.append(name) -%}
        {%- elif not relation.is_delta -%}
            {%- do found.foreign.append(name) -%}
        {%- else -%}
            {%- set detail = run_query('describe detail ' ~ hw_named(relation)).rows[0] -%}
            {%- set changes = hw_drift(declared, detail) -%}
            {%- if (node.config.get('persist_docs') or {}).get('columns') -%}{%- do changes.extend(hw_comment_drift(hw_named(relation), node.columns)) -%}{%- endif -%}
            {%- if changes -%}
                {%- do found.differing.update({name: {'relation': hw_named(relation), 'changes': changes, 'detail': detail, 'declared': declared}}) -%}
            {%- else -%}
                {%- do found.same.append(name) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{% macro hw_plan_lines(found) %}
    {%- set lines = [] -%}
    {%- set shown = [] -%}
    {%- for name, table in found.differing.items() -%}
        {%- set changes = hw_drift_lines(table.changes) -%}
        {%- if changes -%}
            {%- do lines.append(name) -%}
            {%- do lines.extend(changes) -%}
            {%- do shown.extend(changes) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set unmarked = found.differing | length - (lines | length - shown | length) -%}
    {%- if unmarked -%}
        {%- do lines.append(unmarked ~ ' as declared, without the note of which properties are ours') -%}
    {%- endif -%}
    {%- if found.foreign -%}{%- do lines.append('no Delta tables, left alone: ' ~ found.foreign | join(', ')) -%}{%- endif -%}
    {%- if found.absent -%}{%- do lines.append('not built yet: ' ~ found.absent | join(', ')) -%}{%- endif -%}
    {%- do lines.append('plan: ' ~ shown | length ~ ' changes in ' ~ (lines | length - shown | length - (1 if unmarked else 0) - (1 if found.foreign else 0) - (1 if found.absent else 0))
        ~ ' tables, ' ~ found.same | length ~ ' as declared') -%}
    {{ return(lines) }}
{% endmacro %}
