{#- Column comments in one statement, and only when one differs: dbt-spark alters every column in a commit of its own on every run. -#}
{% macro headwaters__alter_column_comment(relation, column_dict) %}
    {%- for statement in hw_drift_sql(relation, hw_comment_drift(relation, column_dict)) -%}
        {%- do run_query(statement) -%}
    {%- endfor -%}
{% endmacro %}
