{#- Compares a query with the contract of its model, as dbt does. A model without columns gets them as YAML to paste. -#}
{% macro headwaters__get_assert_columns_equivalent(sql) %}
    {%- if not model['columns'] -%}
        {%- set columns = get_column_schema_from_query(sql, config.get('sql_header', none)) -%}
        {{ hw_raise_problems([adapter.contracts.columns_to_paste(model, columns)]) }}
    {%- endif -%}
    {{ return(assert_columns_equivalent(sql)) }}
{% endmacro %}
