{#- Column comments in one statement, and only when one differs: dbt-spark alters every column in a commit of its own on every run.
    REPLACE COLUMNS with the same columns changes nothing but the comments. -#}
{% macro spark__alter_column_comment(relation, column_dict) %}
    {%- set described = {} -%}
    {%- for name, column in column_dict.items() -%}
        {%- do described.update({name | lower: column.description}) -%}
    {%- endfor -%}
    {%- set definitions = [] -%}
    {%- set differing = [] -%}
    {%- set ended = namespace(yet=false) -%}
    {%- for row in run_query('describe table ' ~ relation).rows -%}
        {%- if not row['col_name'] or row['col_name'].startswith('#') -%}{%- set ended.yet = true -%}{%- endif -%}
        {%- if not ended.yet -%}
            {%- set comment = described.get(row['col_name'] | lower) or row['comment'] or '' -%}
            {%- if comment != (row['comment'] or '') -%}{%- do differing.append(row['col_name']) -%}{%- endif -%}
            {%- do definitions.append(adapter.quote(row['col_name']) ~ ' ' ~ row['data_type'] ~ (' comment ' ~ string_literal(comment) if comment else '')) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if differing -%}
        {%- do run_query('alter table ' ~ relation ~ ' replace columns (' ~ definitions | join(', ') ~ ')') -%}
    {%- endif -%}
{% endmacro %}
