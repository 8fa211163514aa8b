{#- Replaces dbt-spark's incremental materialization. The four strategies that follow an input's change data feed are run here, in the
    order of docs/flow/incremental.md; the others are dbt-spark's, mended, in stock_strategies.sql. -#}
{% materialization incremental, adapter='spark', supported_languages=['sql', 'python'] %}
    {%- set strategy = config.get('incremental_strategy') or 'append' -%}
    {%- if strategy not in ['change_feed', 'affected_keys', 'signed_sum', 'history'] -%}
        {{ return(_run_stock_strategy(strategy)) }}
    {%- endif -%}
    {%- set target = this.incorporate(type='table') -%}
    {%- set existing = load_cached_relation(this) -%}
    {%- set sql = _with_one_version_each(compiled_code) -%}
    {%- do _check_model(strategy, sql) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set exists = existing is not none and existing.is_delta and not existing.is_view -%}
    {%- set plan = _plan(strategy, target, exists, sql, should_full_refresh()) -%}
    {%- set result = _run_plan(strategy, target, existing, sql, plan) -%}
    {%- do store_raw_result('main', message=result.message, code=result.choice, rows_affected=result.rows) -%}

    {%- if result.choice == 'replace' -%}
        {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=true)) -%}
        {%- do persist_docs(target, model) -%}
        {%- do persist_constraints(target, model) -%}
    {%- elif result.choice != 'skip' -%}
        {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=false)) -%}
    {%- endif -%}

    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}


{#- Carries a plan out. Returns choice, message and rows. -#}
{% macro _run_plan(strategy, target, existing, sql, plan) %}
    {%- if plan.choice == 'skip' -%}
        {%- if plan.recovered -%}
            {%- do run_query(_set_properties_sql(target, {'headwaters.inputs': tojson(_watermark(plan.inputs)), 'headwaters.pending': 'null'})) -%}
        {%- endif -%}
        {{ return({'choice': 'skip', 'message': 'no changes', 'rows': 0}) }}
    {%- elif plan.choice == 'replace' -%}
        {{ return(_replace(strategy, target, existing, sql, plan)) }}
    {%- endif -%}
    {%- set stage = target.incorporate(path={'identifier': target.identifier ~ '__stage_' ~ invocation_id.replace('-', '')[:12]}) -%}
    {%- set columns = adapter.get_columns_in_relation(target) if strategy == 'signed_sum' else none -%}
    {%- do run_query('create table ' ~ stage ~ ' using parquet as\n' ~ _stage_sql(strategy, target, sql, plan, columns) | replace('{bounds}', 'true')) -%}
    {%- if strategy == 'signed_sum' or (strategy == 'change_feed' and not config.get('latest_by')) -%}
        {%- do run_query(_set_properties_sql(target, {'headwaters.inputs': tojson(plan.holds), 'headwaters.pending': tojson(_watermark(plan.inputs))})) -%}
    {%- endif -%}
    {%- set applied = _apply_stage(target, stage, plan) -%}
    {%- if applied.columns_differ -%}
        {%- do run_query('drop table if exists ' ~ stage) -%}
        {{ return(_replace(strategy, target, existing, sql, dict(plan, reason='the columns changed'))) }}
    {%- endif -%}
    {%- do run_query(_set_properties_sql(target, {'headwaters.inputs': tojson(_watermark(plan.inputs)), 'headwaters.pending': 'null'})) -%}
    {%- do run_query('drop table if exists ' ~ stage) -%}
    {%- set choice = 'skip' if applied.rows == 0 else 'append' if applied.rows == applied.inserted else 'merge' -%}
    {{ return({
        'choice': choice,
        'message': 'no changes' if applied.rows == 0 else choice ~ ': ' ~ applied.inserted ~ ' inserted, ' ~ applied.updated ~ ' updated, ' ~ applied.deleted ~ ' deleted',
        'rows': applied.rows,
    }) }}
{% endmacro %}


{#- The whole table anew, its watermark in the same commit. -#}
{% macro _replace(strategy, target, existing, sql, plan) %}
    {%- if existing is not none and (existing.is_view or not existing.is_delta) -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- set columns = adapter.get_column_schema_from_query(sql) if strategy == 'signed_sum' else none -%}
    {%- set properties = dict(config.get('tblproperties', {})) -%}
    {%- do properties.update({'headwaters.sql': _without_versions(sql)}) -%}
    {%- if plan.inputs and not plan.inputs | selectattr('version', 'none') | list -%}
        {%- do properties.update({'headwaters.inputs': tojson(_watermark(plan.inputs))}) -%}
    {%- endif -%}
    {%- do run_query(_create_or_replace_sql(target, _full_refresh_sql(strategy, sql, columns), properties)) -%}
    {%- set metrics = _history(target, 1)[0].metrics -%}
    {%- set rows = metrics.get('numOutputRows', 0) | int -%}
    {{ return({'choice': 'replace', 'message': 'replace: ' ~ rows ~ ' rows, ' ~ plan.reason, 'rows': rows}) }}
{% endmacro %}


{% macro _create_or_replace_sql(target, sql, properties) %}
    {%- set assignments = [] -%}
    {%- for name, value in properties.items() -%}
        {%- do assignments.append(string_literal(name) ~ ' = ' ~ string_literal(value)) -%}
    {%- endfor -%}
    {%- set clustering = _as_list(config.get('cluster_by')) -%}
    {{ return(
        'create or replace table ' ~ target ~ ' using delta\n'
        ~ partition_cols(label='partitioned by')
        ~ ('\ncluster by (' ~ _quoted(clustering) | join(', ') ~ ')' if clustering else '')
        ~ location_clause() ~ comment_clause()
        ~ '\ntblproperties (' ~ assignments | join(', ') ~ ')\nas\n' ~ sql
    ) }}
{% endmacro %}


{#- What a model of these strategies must be, said before anything is read. -#}
{% macro _check_model(strategy, sql) %}
{% endmacro %}
