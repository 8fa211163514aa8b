{#- Writes column comments in one statement, and only if one differs. dbt-spark alters every column on every run, each
    in a separate commit. -#}
{% macro headwaters__alter_column_comment(relation, column_dict) %}
    {%- for statement in hw_drift_sql(relation, hw_comment_drift(relation, column_dict)) -%}
        {%- do run_query(statement) -%}
    {%- endfor -%}
{% endmacro %}
