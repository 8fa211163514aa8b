{#- Replaces dbt-spark's table materialization, whose Python models need Databricks. -#}
{% materialization table, adapter='headwaters', supported_languages=['sql', 'python'] %}
    {{ return(hw_replace_table()) }}
{% endmaterialization %}


{#- Builds the table of the model from all rows of its SQL or Python, with its hooks. -#}
{% macro hw_replace_table() %}
    {%- set target = this.incorporate(type='table') -%}
    {%- set existing = load_cached_relation(this) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set rows_sql = hw_model_sql() -%}
    {%- set format = config.get('file_format') -%}
    {%- if existing is not none and not (existing.is_delta and format == 'delta' or existing.is_iceberg and format == 'iceberg') -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- call statement('main') -%}{{ create_table_as(false, target, rows_sql) }}{%- endcall -%}

    {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=true)) -%}
    {%- do persist_docs(target, model) -%}
    {%- do persist_constraints(target, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmacro %}


{#- Returns the query of the model's rows. A Python model runs first. -#}
{% macro hw_model_sql() %}
    {%- set rows_sql = adapter.python_rows(model, compiled_code) if model.language == 'python' else compiled_code -%}
    {{ return(adapter.stock.with_kept_partitions(rows_sql, config)) }}
{% endmacro %}
