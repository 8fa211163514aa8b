{#- How the model's SQL differs from what built the table: `built_by`, and what hw_change_of_sql says. A run that was interrupted after it
    had patched the table has left it as that of other SQL than the table says. -#}
{% macro hw_change_since(relation, state, applied, sql, settings) %}
    {%- if applied.built_by -%}
        {%- set is_applied = applied.built_by == local_md5(hw_built_by(sql, settings)) -%}
        {{ return({'built_by': none, 'patch': {'text': 'applied by the run before', 'is_applied': true} if is_applied else none}) }}
    {%- endif -%}
    {{ return(dict(hw_change_of_sql(relation, state.sql, sql, settings), built_by=state.sql)) }}
{% endmacro %}


{#- What makes the table that some SQL built that of another one over the same inputs, under the same settings: `is_same`, nothing does;
    `patch`; or `why_not`. Runs a statement for each input and three of the table, which tell columns, where the texts differ. -#}
{% macro hw_change_of_sql(relation, built_by, sql, settings) %}
    {%- set would_be_built_by = hw_built_by(sql, settings) -%}
    {%- set inputs = hw_inputs_of(would_be_built_by) -%}
    {%- if not built_by or built_by == would_be_built_by
        or not adapter.same_inputs(built_by, would_be_built_by, hw_inputs_of(built_by), inputs) -%}
        {{ return({}) }}
    {%- endif -%}
    {%- do hw_with_columns(inputs) -%}
    {%- if adapter.is_same_query(built_by, would_be_built_by, inputs) -%}{{ return({'is_same': true}) }}{%- endif -%}
    {%- set columns = adapter.get_column_schema_from_query('select * from ' ~ relation) -%}
    {%- set patch = adapter.patch_of(built_by, would_be_built_by, inputs, settings, columns) -%}
    {%- if patch is none -%}{{ return({'is_same': true}) }}{%- endif -%}
    {%- if patch is string -%}{{ return({'why_not': patch}) }}{%- endif -%}
    {%- set given = adapter.columns_digest(hw_columns_of_full_refresh(sql, settings)) -%}
    {%- set patched = adapter.get_column_schema_from_query(hw_patched_rows_sql(relation, patch)) if patch.columns else columns -%}
    {%- if adapter.columns_digest(patched) != given -%}{{ return({'why_not': 'its columns have other types'}) }}{%- endif -%}
    {{ return({'patch': patch}) }}
{% endmacro %}


{#- The rows of the table that stay, under the columns that it is to have. -#}
{% macro hw_patched_rows_sql(table, patch) -%}
    {%- set columns = [] -%}
    {%- for name, expression in patch.columns -%}{%- do columns.append(expression ~ ' as ' ~ hw_quote(name)) -%}{%- endfor -%}
select {{ columns | join(', ') }} from {{ table }}
{%- if patch.kept %} where {{ patch.kept }}{% endif %}
{%- endmacro %}


{% macro hw_columns_of_full_refresh(sql, settings) %}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set given = adapter.get_column_schema_from_query(sql) -%}
    {{ return(adapter.get_column_schema_from_query(hw_full_refresh_sql(strategy, sql, settings, given)) if strategy.adds_columns
        else given) }}
{% endmacro %}
