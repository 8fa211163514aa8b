{#- Replaces the whole table, with the applied versions in the same commit. -#}
{% macro hw_replace_table(target, existing, sql, plan) %}
    {%- set settings = model.config -%}
    {%- set strategy, began = adapter.strategy_of(settings), adapter.moment() -%}
    {%- do hw_hook(strategy, 'before_replace')(target, plan, settings) -%}
    {%- if existing is not none and (existing.is_view or not existing.is_delta) -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- do hw_drop_interrupted(target, plan) -%}
    {%- if not plan.same_sql -%}{%- do hw_drop_hidden_tables(target, plan.proof) -%}{%- endif -%}
    {%- do hw_check_input_columns(target, plan.inputs) -%}
    {%- set columns = adapter.get_column_schema_from_query(sql) -%}
    {%- do hw_check_columns(target, sql, columns, plan.inputs, settings) -%}
    {%- if settings.get('incremental_proof') == 'sample' and not plan.same_sql -%}
        {%- do hw_check_by_rows(target, sql, plan.inputs, settings, columns) -%}
    {%- endif -%}
    {%- do hw_refuse_keys_of_lookups(target, sql, plan.inputs, settings) -%}
    {%- set properties = hw_properties_of_replacement(sql, plan.inputs, columns, settings) -%}
    {%- set rows = hw_rows_of_table_sql(target, sql, columns, settings) -%}
    {%- set stage = hw_staging_relation(target) if adapter.expectations_of(settings) else none -%}
    {%- set audit = hw_stage_table(target, stage, rows, columns, settings) if stage else '' -%}
    {%- set rows = 'select * except (_operation) from ' ~ stage if stage else rows -%}
    {%- if (settings.get('contract') or {}).enforced -%}
        {%- do get_assert_columns_equivalent(rows) -%}
    {%- endif -%}
    {%- do run_query(hw_create_or_replace_sql(target, rows, properties, columns, settings)) -%}
    {%- set seconds = (adapter.moment() - began) / 1000 -%}
    {%- if stage -%}{%- do hw_drop_staging_table(stage) -%}{%- endif -%}
    {%- set counts = hw_counts_of_replacement(target) -%}
    {{ return({
        'choice': 'replace', 'counts': dict(counts, seconds=seconds | round(1)),
        'message': 'replace: ' ~ counts.rows_affected ~ ' rows, ' ~ counts.bytes_written | filesizeformat ~ ', ' ~ plan.reason ~ audit,
    }) }}
{% endmacro %}


{#- What a replacement that was just made has written. -#}
{% macro hw_counts_of_replacement(target) %}
    {%- set metrics = hw_describe_history(target, 1)[0].metrics -%}
    {{ return({'rows_affected': metrics.get('numOutputRows', 0) | int, 'bytes_written': metrics.get('numOutputBytes', 0) | int}) }}
{% endmacro %}


{#- The properties of the table that replaces it: what is declared, and what it says of itself. -#}
{% macro hw_properties_of_replacement(sql, inputs, columns, settings) %}
    {%- set properties = dict(adapter.created_properties(settings)) -%}
    {%- if not hw_is_hidden(settings) -%}{%- do properties.update(adapter.created_checks(model)) -%}{%- endif -%}
    {%- do properties.update(hw_state_properties(sql, inputs, settings)) -%}
    {%- do properties.update({'headwaters.layout': hw_layout_of_replacement(columns, settings)}) -%}
    {{ return(properties) }}
{% endmacro %}


{#- What DESCRIBE DETAIL will say of the table that replaces it, as its property notes it. -#}
{% macro hw_layout_of_replacement(columns, settings) %}
    {%- set described = config.persist_relation_docs() and model.description and not hw_is_hidden(settings) -%}
    {{ return(adapter.layout_note({
        'partitionColumns': hw_spelled(settings.get('partition_by'), columns),
        'clusteringColumns': hw_spelled(settings.get('cluster_by'), columns), 'description': model.description if described else none,
    })) }}
{% endmacro %}


{#- The SQL of the table's rows; keys that come twice are refused, by it or before it. -#}
{% macro hw_rows_of_table_sql(target, sql, columns, settings) %}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set rows = hw_full_refresh_sql(strategy, sql, settings, columns) -%}
    {%- if strategy.repeated_keys == 'counted' and keys -%}
        {{ return(hw_one_row_a_key_sql(target, keys, rows)) }}
    {%- elif strategy.repeated_keys == 'queried' and keys and hw_may_repeat_keys(keys, columns, sql) -%}
        {%- do hw_refuse_repeated_keys(target, none, keys, hw_repeated_keys_sql(keys, '(\n' ~ sql ~ '\n)')) -%}
    {%- endif -%}
    {{ return(rows) }}
{% endmacro %}


{#- Stages the rows of a table with expectations. Returns what the audit step says of them. -#}
{% macro hw_stage_table(target, stage, rows, columns, settings) %}
    {%- set marked = "select *, 'insert' as _operation from (\n%s\n)" -%}
    {%- do hw_create_staging_table(stage, marked | replace('%s', rows)) -%}
    {%- set unfiltered = hw_followed_sql(model.compiled_code, settings, kept=false) -%}
    {%- set all_rows = hw_full_refresh_sql(adapter.strategy_of(settings), unfiltered, settings, columns) -%}
    {{ return(hw_audit_staged(target, stage, marked | replace('%s', all_rows), settings)) }}
{% endmacro %}


{#- A hidden table has no place, comment or partitions of its own: those that dbt's macros tell are the model's. -#}
{% macro hw_is_hidden(settings) %}
    {{ return('stage_of' in (settings.get('derivation') or {})) }}
{% endmacro %}


{% macro hw_create_or_replace_sql(target, sql, properties, columns, settings) -%}
create or replace table {{ target }} using delta
{{ partition_cols(label='partitioned by') if not hw_is_hidden(settings) }}
{%- if settings.get('cluster_by') %}
cluster by ({{ hw_quoted(hw_spelled(settings.get('cluster_by'), columns)) | join(', ') }})
{%- endif %}{{ location_clause() ~ comment_clause() if not hw_is_hidden(settings) }}
tblproperties ({{ hw_assignments(properties) }})
as
{{ sql }}
{%- endmacro %}
