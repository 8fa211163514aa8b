{#- dbt-spark's own strategies on Delta: `append`, `merge`, `insert_overwrite` and `microbatch`, configured as dbt documents them.
    What is corrected: the batch is staged in a real table of the model's own schema (dbt-spark's temporary views of two models of one
    name overwrite each other in a shared session), keys are compared null-safe and quoted, nothing is set on the session, and merges
    take the conditions that dbt-databricks users know. -#}
{% macro hw_run_stock_strategy(strategy) %}
    {%- do hw_check_stock_strategy(strategy) -%}
    {%- set target = this.incorporate(type='table', is_delta=true) -%}
    {%- set existing = load_cached_relation(this) -%}
    {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}

    {{ run_hooks(pre_hooks) }}

    {%- set created = existing is none or existing.is_view or not existing.is_delta or should_full_refresh() -%}
    {%- if created -%}
        {%- if existing is not none and (existing.is_view or not existing.is_delta) -%}
            {%- do adapter.drop_relation(existing) -%}
        {%- endif -%}
        {%- call statement('main') -%}{{ create_table_as(false, target, compiled_code) }}{%- endcall -%}
        {%- do persist_constraints(target, model) -%}
    {%- else -%}
        {%- do hw_reconcile_table(target, run_query('describe detail ' ~ target).rows[0]) -%}
        {%- set stage = hw_staging_relation(target) -%}
        {%- do hw_create_staging_table(stage, compiled_code) -%}
        {%- do process_schema_changes(on_schema_change, stage, existing) -%}
        {%- call statement('main') -%}{{ hw_stock_sql(strategy, target, stage) }}{%- endcall -%}
        {%- do hw_drop_staging_table(stage) -%}
    {%- endif -%}

    {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=created)) -%}
    {%- do persist_docs(target, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmacro %}


{% macro hw_check_stock_strategy(strategy) %}
    {%- set allowed = ['append', 'merge', 'insert_overwrite', 'microbatch'] + adapter.strategy_names() -%}
    {%- if strategy not in allowed -%}
        {{ hw_raise('UNKNOWN_STRATEGY', model.name ~ ' (' ~ model.original_file_path ~ ") has incremental_strategy '" ~ strategy
            ~ "': allowed are " ~ allowed | join(', ')) }}
    {%- endif -%}
    {%- if config.get('file_format') != 'delta' -%}
        {{ hw_raise('FILE_FORMAT', model.name ~ ' (' ~ model.original_file_path ~ ') has file_format '
            ~ config.get('file_format') ~ ': incremental models are Delta tables, set file_format: delta') }}
    {%- endif -%}
    {%- if strategy == 'microbatch' and not config.get('partition_by') -%}
        {{ hw_raise('NO_PARTITION_BY', model.name ~ ' (' ~ model.original_file_path ~ ') has incremental_strategy '
            ~ 'microbatch and no partition_by: a batch replaces the partitions of its period, so partition by a column of the '
            ~ 'grain of batch_size') }}
    {%- endif -%}
{% endmacro %}


{% macro hw_stock_sql(strategy, target, stage) -%}
    {%- set columns = adapter.get_columns_in_relation(target) | map(attribute='quoted') | join(', ') -%}
    {%- if strategy == 'append' -%}
insert into {{ target }} ({{ columns }}) select {{ columns }} from {{ stage }}
    {%- elif strategy == 'merge' -%}
{{ hw_stock_merge_sql(target, stage) }}
    {%- else -%}
insert overwrite {{ target }} with ('partitionOverwriteMode' = '{{ 'dynamic' if config.get('partition_by') else 'static' }}')
select {{ columns }} from {{ stage }}
    {%- endif -%}
{%- endmacro %}


{% macro hw_stock_merge_sql(target, stage) -%}
    {%- set key = hw_as_list(config.get('unique_key')) -%}
    {%- set conditions = hw_as_list(config.get('incremental_predicates') or config.get('predicates')) | list -%}
    {%- do conditions.append(hw_equals(key, 'DBT_INTERNAL_DEST', 'DBT_INTERNAL_SOURCE') if key else 'false') -%}
    {%- set deleted, updated = config.get('delete_condition'), config.get('matched_condition') -%}
    {%- set inserted = [config.get('not_matched_condition')] if config.get('not_matched_condition') else [] -%}
    {%- if deleted and 'DBT_INTERNAL_DEST' not in deleted -%}
        {%- do inserted.append('not coalesce(' ~ deleted ~ ', false)') -%}
    {%- endif -%}
    {%- set unmatched = config.get('not_matched_by_source_condition') -%}
    {%- set assignments = hw_stock_assignments(target) -%}
merge into {{ target }} as DBT_INTERNAL_DEST using {{ stage }} as DBT_INTERNAL_SOURCE
on {{ conditions | join(' and ') }}
{%- if deleted %}
when matched and {{ deleted }} then delete
{%- endif %}
{%- if not config.get('skip_matched_step') %}
when matched{{ ' and ' ~ updated if updated }} then update set {{ assignments }}
{%- endif %}
{%- if not config.get('skip_not_matched_step') %}
when not matched{{ ' and ' ~ inserted | join(' and ') if inserted }} then insert *
{%- endif %}
{%- if config.get('not_matched_by_source_action') == 'delete' %}
when not matched by source{{ ' and ' ~ unmatched if unmatched }} then delete
{%- endif %}
{%- endmacro %}


{#- The columns that a merge updates; all of them where the model names none. -#}
{% macro hw_stock_assignments(target) %}
    {%- set columns = adapter.get_columns_in_relation(target) -%}
    {%- set assignments = [] -%}
    {%- for column in get_merge_update_columns(config.get('merge_update_columns'), config.get('merge_exclude_columns'), columns) or [] -%}
        {%- set name = column if column.startswith('`') else adapter.quote(column) -%}
        {%- do assignments.append(name ~ ' = DBT_INTERNAL_SOURCE.' ~ name) -%}
    {%- endfor -%}
    {{ return(assignments | join(', ') if assignments else '*') }}
{% endmacro %}
