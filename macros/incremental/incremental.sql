{#- Replaces dbt-spark's incremental materialization. The four strategies that follow an input's change data feed are run here, in the
    order of docs/flow/incremental.md; the others are dbt-spark's, mended, in _stock_strategies.sql. -#}
{% materialization incremental, adapter='spark', supported_languages=['sql', 'python'] %}
    {%- set strategy = config.get('incremental_strategy') or 'append' -%}
    {%- if strategy not in ['change_feed', 'affected_keys', 'signed_sum', 'history'] -%}
        {{ return(hw_run_stock_strategy(strategy)) }}
    {%- endif -%}
    {%- set target = this.incorporate(type='table', is_delta=true) -%}
    {%- set existing = load_cached_relation(this) -%}
    {%- set sql = hw_followed_sql(compiled_code, model.config) -%}
    {%- do hw_check_model(strategy, sql, model.config) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set exists = existing is not none and existing.is_delta and not existing.is_view -%}
    {%- set plan = hw_plan_run(strategy, target, exists, sql, model.config, should_full_refresh()) -%}
    {%- if plan.choice != 'replace' and plan.detail -%}
        {%- do hw_reconcile_table(target, plan.detail) -%}
    {%- endif -%}
    {%- set result = hw_run_plan(strategy, target, existing, sql, plan) -%}
    {%- do store_result('main', response=adapter.run_response(result.message, result.choice, **result.counts)) -%}

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


{#- Carries a plan out. Returns choice, message and counts. -#}
{% macro hw_run_plan(strategy, target, existing, sql, plan) %}
    {%- if plan.choice == 'skip' -%}
        {#- commits that changed no rows need not be looked at again and again, those of the inputs and those of the table -#}
        {%- if plan.interrupted or (plan.ranges.values() | list + plan.lookups.values() | list) | map(attribute='versions') | sum > 10 or plan.commits | default(0) > 20 -%}
            {%- if plan.interrupted -%}{%- do hw_drop_staging_table(hw_staging_relation(target, plan.interrupted)) -%}{%- endif -%}
            {%- do hw_set_applied_versions(target, plan.inputs, plan.seen) -%}
        {%- endif -%}
        {{ return({'choice': 'skip', 'message': 'no changes', 'counts': {'rows_affected': 0}}) }}
    {%- elif plan.choice == 'replace' -%}
        {{ return(hw_replace_table(strategy, target, existing, sql, plan)) }}
    {%- endif -%}
    {%- set settings = model.config -%}
    {%- set columns = adapter.get_columns_in_relation(target) if strategy == 'signed_sum' else [] -%}
    {%- set gap = hw_refuse_keys_of_lookups(strategy, target, sql, plan.inputs, settings, plan) -%}
    {%- if gap -%}
        {{ return(hw_replace_for_gap(strategy, target, existing, sql, plan, gap)) }}
    {%- endif -%}
    {%- set known = hw_facts_before_staging(strategy, target, sql, plan, settings) -%}
    {%- if known.gap -%}
        {{ return(hw_replace_for_gap(strategy, target, existing, sql, plan, known.gap)) }}
    {%- elif not known.same_columns -%}
        {{ return(hw_replace_table(strategy, target, existing, sql, dict(plan, reason='the columns changed'))) }}
    {%- endif -%}
    {%- set bounds = known.bounds -%}
    {%- do hw_note_run(target, plan, [plan.interrupted] if plan.interrupted else []) -%}
    {%- set stage = hw_staging_relation(target) -%}
    {%- set gap = hw_stage_changes(stage, hw_change_set_sql(strategy, target, sql, plan, settings, columns, bounds), plan) -%}
    {%- if gap -%}
        {{ return(hw_replace_for_gap(strategy, target, existing, sql, plan, gap)) }}
    {%- endif -%}
    {%- set keys = hw_as_list(settings.unique_key) + (['valid_from'] if strategy == 'history' else []) -%}
    {%- set is_pruned = strategy == 'change_feed' and not plan.ranges.values() | rejectattr('inserts_only') | list -%}
    {%- set look = hw_inspect_staged(target, stage, keys, settings, plan.detail, bounds if is_pruned else []) -%}
    {%- if look.misplaced -%}
        {%- set bounds = bounds[:keys | length] -%}
        {%- do hw_drop_staging_table(stage) -%}
        {%- do hw_create_staging_table(stage, hw_change_set_sql(strategy, target, sql, plan, settings, columns, bounds)) -%}
        {%- set look = hw_inspect_staged(target, stage, keys, settings, plan.detail) -%}
    {%- endif -%}
    {%- if strategy == 'signed_sum' -%}{%- do hw_refuse_joined_groups(target, stage, keys, look, sql, settings) -%}{%- endif -%}
    {%- set audit = hw_audit_staged(target, stage, hw_change_set_sql(strategy, target, hw_followed_sql(compiled_code, model.config, kept=false), plan, settings, columns, bounds), settings) if hw_expectations(settings) else '' -%}
    {%- set changed = hw_commits_since_plan(target, plan, settings) -%}
    {%- set applied = {'refused': changed} if changed else hw_apply_staged(target, stage, keys, settings, look, check_target=strategy == 'change_feed' and not settings.get('latest_by')) -%}
    {%- if applied.refused -%}
        {%- do hw_drop_staging_table(stage) -%}
        {{ return(hw_replace_table(strategy, target, existing, sql, dict(plan, reason=applied.refused))) }}
    {%- endif -%}
    {%- do hw_set_applied_versions(target, plan.inputs, plan.seen) -%}
    {%- do hw_drop_staging_table(stage) -%}
    {%- set choice = 'skip' if applied.rows == 0 else 'append' if applied.rows == applied.inserted else 'merge' -%}
    {{ return({
        'choice': choice,
        'message': ('no changes' if applied.rows == 0 else choice ~ ': ' ~ applied.inserted ~ ' inserted, ' ~ applied.updated ~ ' updated, ' ~ applied.deleted ~ ' deleted, '
            ~ applied.bytes | filesizeformat) ~ ', of ' ~ plan.rows ~ ' changed input rows' ~ audit,
        'counts': {'rows_affected': applied.rows, 'rows_inserted': applied.inserted, 'rows_updated': applied.updated, 'rows_deleted': applied.deleted,
            'input_rows': plan.rows, 'bytes_written': applied.bytes},
    }) }}
{% endmacro %}


{#- What follows a change feed that turned out to be unreadable when it was read: what on_gap says, as if the plan had known. -#}
{% macro hw_replace_for_gap(strategy, target, existing, sql, plan, gap) %}
    {%- do hw_fail_on_gap(strategy, target, gap, model.config) -%}
    {{ return(hw_replace_table(strategy, target, existing, sql, dict(plan, reason=gap))) }}
{% endmacro %}


{#- What has to be known before a stage is written, in one statement: `bounds`, where in the target, and in inputs read by key, the touched keys
    are; `same_columns`, whether the model has the table's columns; `gap`, why a feed cannot be read. It need not be asked where rows are neither compared whole with the
    table's nor put under them: `hw_apply_staged` sees it. -#}
{% macro hw_facts_before_staging(strategy, target, sql, plan, settings) %}
    {%- set touched = hw_affected_keys_sql(strategy, sql, plan, settings) -%}
    {%- if strategy == 'history' -%}
        {%- set types = run_query('select ' ~ hw_type_of('select * except (valid_from, valid_to, is_current) from ' ~ target) ~ ' as held, ' ~ hw_type_of('select * except (_image) from (\n' ~ sql ~ '\n)') ~ ' as given').rows[0] -%}
        {{ return({'bounds': [], 'same_columns': types['held'] == types['given']}) }}
    {%- elif not touched -%}
        {{ return({'bounds': [], 'same_columns': true}) }}
    {%- endif -%}
    {%- set columns = hw_affected_key_columns(strategy, plan, settings) -%}
    {%- set others = [] -%}
    {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- for spec in affected -%}
        {%- do others.append('select ' ~ hw_key_columns(spec, '_keyed') ~ ' from ' ~ (hw_via_sql(spec, affected) if spec.via else hw_input_sql(spec)) ~ ' as _keyed') -%}
    {%- endfor -%}
    {%- set reading = hw_read_changes(hw_affected_bounds_sql(target, touched, columns, plan.rows <= 10000, others, [hw_type_of('select * from ' ~ target) ~ ' as held', hw_type_of(sql) ~ ' as given']), plan) -%}
    {%- if reading.gap -%}
        {{ return({'gap': reading.gap}) }}
    {%- endif -%}
    {%- set row = reading.rows[0] -%}
    {{ return({'bounds': hw_affected_bounds(row, columns, plan.rows <= 10000), 'same_columns': row['held'] == row['given']}) }}
{% endmacro %}


{#- The whole table anew, its watermark in the same commit. -#}
{% macro hw_replace_table(strategy, target, existing, sql, plan) %}
    {%- if strategy == 'history' -%}{%- do hw_refuse_lost_periods(target, plan, model.config) -%}{%- endif -%}
    {%- if existing is not none and (existing.is_view or not existing.is_delta) -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- if plan.interrupted -%}{%- do hw_drop_staging_table(hw_staging_relation(target, plan.interrupted)) -%}{%- endif -%}
    {%- do hw_check_input_columns(target, plan.inputs) -%}
    {%- set columns = adapter.get_column_schema_from_query(sql) -%}
    {%- do hw_check_columns(strategy, target, sql, columns, plan.inputs, model.config) -%}
    {%- if not plan.same_sql -%}{%- do hw_check_by_rows(strategy, target, sql, plan.inputs, model.config, columns) -%}{%- endif -%}
    {%- do hw_refuse_keys_of_lookups(strategy, target, sql, plan.inputs, model.config) -%}
    {%- set properties = dict(hw_created_properties(model.config)) -%}
    {%- do properties.update(hw_state_properties(strategy, sql, plan.inputs, model.config)) -%}
    {%- set anew = hw_full_refresh_sql(strategy, sql, model.config, columns) -%}
    {%- set keys = hw_as_list(config.get('unique_key')) -%}
    {%- if strategy in ['affected_keys', 'signed_sum'] -%}
        {%- set anew = hw_one_row_a_key_sql(target, keys, anew) -%}
    {%- elif strategy == 'change_feed' and not config.get('latest_by') and hw_may_repeat_keys(keys, columns, sql) -%}
        {%- do hw_refuse_repeated_keys(target, none, keys, 'select ' ~ hw_quoted(keys) | join(', ') ~ ' from (\n' ~ sql ~ '\n) group by all having count(*) > 1') -%}
    {%- endif -%}
    {%- set audit = '' -%}
    {%- set stage = hw_staging_relation(target) if hw_expectations(model.config) else none -%}
    {%- if stage -%}
        {%- set marked = "select *, 'insert' as _operation from (\n%s\n)" -%}
        {%- do hw_create_staging_table(stage, marked | replace('%s', anew)) -%}
        {%- set audit = hw_audit_staged(target, stage, marked | replace('%s', hw_full_refresh_sql(strategy, hw_followed_sql(compiled_code, model.config, kept=false), model.config, columns)), model.config) -%}
        {%- set anew = 'select * except (_operation) from ' ~ stage -%}
    {%- endif -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(anew) -%}
    {%- endif -%}
    {%- do run_query(hw_create_or_replace_sql(target, anew, properties, columns)) -%}
    {%- if stage -%}{%- do hw_drop_staging_table(stage) -%}{%- endif -%}
    {%- set metrics = hw_describe_history(target, 1)[0].metrics -%}
    {%- set counts = {'rows_affected': metrics.get('numOutputRows', 0) | int, 'bytes_written': metrics.get('numOutputBytes', 0) | int} -%}
    {{ return({
        'choice': 'replace', 'counts': counts,
        'message': 'replace: ' ~ counts.rows_affected ~ ' rows, ' ~ counts.bytes_written | filesizeformat ~ ', ' ~ plan.reason ~ audit,
    }) }}
{% endmacro %}


{% macro hw_create_or_replace_sql(target, sql, properties, columns) %}
    {{ return(
        'create or replace table ' ~ target ~ ' using delta\n' ~ partition_cols(label='partitioned by')
        ~ ('\ncluster by (' ~ hw_quoted(hw_spelled(config.get('cluster_by'), columns)) | join(', ') ~ ')' if config.get('cluster_by') else '')
        ~ location_clause() ~ comment_clause() ~ '\ntblproperties (' ~ hw_assignments(properties) ~ ')\nas\n' ~ sql
    ) }}
{% endmacro %}
