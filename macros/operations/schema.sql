{#- The schema of what headwaters itself writes down: operations, table states, expectations, erasures. -#}
{% macro hw_ops_schema() %}
    {{ return(generate_schema_name('ops', none)) }}
{% endmacro %}
