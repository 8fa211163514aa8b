{#- Compares a query with the contract of its model, as dbt does. A model without columns gets them as YAML to
    paste. dbt does not name the model whose columns lack a type. -#}
{% macro headwaters__get_assert_columns_equivalent(sql) %}
    {%- if not model['columns'] -%}
        {%- set columns = get_column_schema_from_query(sql) -%}
        {{ hw_raise_problems([adapter.contracts.columns_to_paste(model, columns)]) }}
    {%- endif -%}
    {%- set problems = adapter.contracts.untyped_columns(model) -%}
    {%- if problems -%}{{ hw_raise_problems(problems) }}{%- endif -%}
    {{ return(assert_columns_equivalent(sql)) }}
{% endmacro %}


{#- Omits the header of a model: the adapter has run its statements (`pre_model_hook` in
    scripts/dbt/adapters/headwaters/impl.py). -#}
{% macro headwaters__get_empty_subquery_sql(select_sql, select_sql_header=none) %}
    {{ return(default__get_empty_subquery_sql(select_sql)) }}
{% endmacro %}
