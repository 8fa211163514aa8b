{#- Also takes the relation of a run with `--empty`, which is a query. -#}
{% macro headwaters__alter_column_type(relation, column_name, new_column_type) %}
    {%- do run_query('alter table ' ~ relation.render() ~ ' alter column ' ~ hw_quote(column_name) ~ ' type ' ~ new_column_type) -%}
{% endmacro %}


{#- Also drops columns of a Delta table, which dbt-spark refuses. Delta drops those of a table with column mapping. -#}
{% macro headwaters__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
    {%- set relation = relation.replace(limit=none, event_time_filter=none) -%}
    {%- if remove_columns -%}
        {%- set names = hw_quoted(remove_columns | map(attribute='name') | list) -%}
        {%- do run_query('alter table ' ~ relation ~ ' drop columns (' ~ names | join(', ') ~ ')') -%}
    {%- endif -%}
    {%- if add_columns -%}
        {%- do spark__alter_relation_add_remove_columns(relation, add_columns, none) -%}
    {%- endif -%}
{% endmacro %}
