{#- Replaces dbt-spark's incremental materialization. The four strategies that follow an input's change data feed are run here, in the
    order of docs/flow/incremental.md; the others are dbt-spark's, mended, in _stock_strategies.sql. -#}
{% materialization incremental, adapter='spark', supported_languages=['sql', 'python'] %}
    {%- set strategy = config.get('incremental_strategy') or 'append' -%}
    {%- if strategy not in ['change_feed', 'affected_keys', 'signed_sum', 'history'] -%}
        {{ return(_run_stock_strategy(strategy)) }}
    {%- endif -%}
    {%- set target = this.incorporate(type='table', is_delta=true) -%}
    {%- set existing = load_cached_relation(this) -%}
    {%- set sql = _followed_sql(compiled_code, model.config) -%}
    {%- do _check_model(strategy, sql, model.config) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set exists = existing is not none and existing.is_delta and not existing.is_view -%}
    {%- set plan = _plan(strategy, target, exists, sql, model.config, should_full_refresh()) -%}
    {%- if plan.choice != 'replace' and plan.detail -%}
        {%- do _mend_drift(target, plan.detail) -%}
    {%- endif -%}
    {%- set result = _run_plan(strategy, target, existing, sql, plan) -%}
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
{% macro _run_plan(strategy, target, existing, sql, plan) %}
    {%- if plan.choice == 'skip' -%}
        {#- commits that changed no rows need not be looked at again and again, those of the inputs and those of the table -#}
        {%- if plan.interrupted or (plan.ranges.values() | list + plan.lookups.values() | list) | map(attribute='versions') | sum > 10 or plan.commits | default(0) > 20 -%}
            {%- if plan.interrupted -%}{%- do _drop_stage(_stage_relation(target, plan.interrupted)) -%}{%- endif -%}
            {%- do _set_watermark(target, plan.inputs, plan.seen) -%}
        {%- endif -%}
        {{ return({'choice': 'skip', 'message': 'no changes', 'counts': {'rows_affected': 0}}) }}
    {%- elif plan.choice == 'replace' -%}
        {{ return(_replace(strategy, target, existing, sql, plan)) }}
    {%- endif -%}
    {%- set settings = model.config -%}
    {%- set columns = adapter.get_columns_in_relation(target) if strategy == 'signed_sum' else [] -%}
    {%- set gap = _refuse_keys_of_lookups(strategy, target, sql, plan.inputs, settings, plan) -%}
    {%- if gap -%}
        {{ return(_replace_for_gap(strategy, target, existing, sql, plan, gap)) }}
    {%- endif -%}
    {%- set known = _before_the_stage(strategy, target, sql, plan, settings) -%}
    {%- if known.gap -%}
        {{ return(_replace_for_gap(strategy, target, existing, sql, plan, known.gap)) }}
    {%- elif not known.same_columns -%}
        {{ return(_replace(strategy, target, existing, sql, dict(plan, reason='the columns changed'))) }}
    {%- endif -%}
    {%- set bounds = known.bounds -%}
    {%- do _note_run(target, plan, [plan.interrupted] if plan.interrupted else []) -%}
    {%- set stage = _stage_relation(target) -%}
    {%- set gap = _stage_changes(stage, _stage_sql(strategy, target, sql, plan, settings, columns, bounds), plan) -%}
    {%- if gap -%}
        {{ return(_replace_for_gap(strategy, target, existing, sql, plan, gap)) }}
    {%- endif -%}
    {%- set keys = _as_list(settings.unique_key) + (['valid_from'] if strategy == 'history' else []) -%}
    {%- set is_pruned = strategy == 'change_feed' and not plan.ranges.values() | rejectattr('inserts_only') | list -%}
    {%- set look = _look_at(target, stage, keys, settings, plan.detail, bounds if is_pruned else []) -%}
    {%- if look.misplaced -%}
        {%- set bounds = bounds[:keys | length] -%}
        {%- do _drop_stage(stage) -%}
        {%- do _create_stage(stage, _stage_sql(strategy, target, sql, plan, settings, columns, bounds)) -%}
        {%- set look = _look_at(target, stage, keys, settings, plan.detail) -%}
    {%- endif -%}
    {%- if strategy == 'signed_sum' -%}{%- do _refuse_joined_groups(target, stage, keys, look, sql, settings) -%}{%- endif -%}
    {%- set audit = _audit(target, stage, _stage_sql(strategy, target, _followed_sql(compiled_code, model.config, kept=false), plan, settings, columns, bounds), settings) if _expectations(settings) else '' -%}
    {%- set changed = _meanwhile(target, plan, settings) -%}
    {%- set applied = {'refused': changed} if changed else _apply_stage(target, stage, keys, settings, look, check_target=strategy == 'change_feed' and not settings.get('latest_by')) -%}
    {%- if applied.refused -%}
        {%- do _drop_stage(stage) -%}
        {{ return(_replace(strategy, target, existing, sql, dict(plan, reason=applied.refused))) }}
    {%- endif -%}
    {%- do _set_watermark(target, plan.inputs, plan.seen) -%}
    {%- do _drop_stage(stage) -%}
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
{% macro _replace_for_gap(strategy, target, existing, sql, plan, gap) %}
    {%- do _fail_on_gap(strategy, target, gap, model.config) -%}
    {{ return(_replace(strategy, target, existing, sql, dict(plan, reason=gap))) }}
{% endmacro %}


{#- What has to be known before a stage is written, in one statement: `bounds`, where in the target, and in inputs read by key, the touched keys
    are; `same_columns`, whether the model has the table's columns; `gap`, why a feed cannot be read. It need not be asked where rows are neither compared whole with the
    table's nor put under them: `_apply_stage` sees it. -#}
{% macro _before_the_stage(strategy, target, sql, plan, settings) %}
    {%- set touched = _touched_sql(strategy, sql, plan, settings) -%}
    {%- if strategy == 'history' -%}
        {%- set types = run_query('select ' ~ _type_of('select * except (valid_from, valid_to, is_current) from ' ~ target) ~ ' as held, ' ~ _type_of('select * except (_image) from (\n' ~ sql ~ '\n)') ~ ' as given').rows[0] -%}
        {{ return({'bounds': [], 'same_columns': types['held'] == types['given']}) }}
    {%- elif not touched -%}
        {{ return({'bounds': [], 'same_columns': true}) }}
    {%- endif -%}
    {%- set columns = _touched_columns(strategy, plan, settings) -%}
    {%- set others = [] -%}
    {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- for spec in affected -%}
        {%- do others.append('select ' ~ _key_columns(spec, '_keyed') ~ ' from ' ~ (_via_sql(spec, affected) if spec.via else _input_sql(spec)) ~ ' as _keyed') -%}
    {%- endfor -%}
    {%- set reading = _read_changes(_touched_bounds_sql(target, touched, columns, plan.rows <= 10000, others, [_type_of('select * from ' ~ target) ~ ' as held', _type_of(sql) ~ ' as given']), plan) -%}
    {%- if reading.gap -%}
        {{ return({'gap': reading.gap}) }}
    {%- endif -%}
    {%- set row = reading.rows[0] -%}
    {{ return({'bounds': _touched_bounds(row, columns, plan.rows <= 10000), 'same_columns': row['held'] == row['given']}) }}
{% endmacro %}


{#- The query that asks between which values touched rows lie, of which `touched` selects these columns, with `more` expressions. '9' and '10' lie
    otherwise than 9 and 10, so it asks as well whether the columns have the same types in the target and in `others`. -#}
{% macro _touched_bounds_sql(target, touched, columns, list_values, others=[], more=[]) %}
    {%- set types = [] -%}
    {%- for rows in ['select ' ~ _quoted(columns) | join(', ') ~ ' from ' ~ target] + others -%}{%- do types.append(_type_of(rows)) -%}{%- endfor -%}
    {{ return('select ' ~ (_bounds_expressions(columns, list_values) + ['size(array_distinct(array(' ~ types | join(', ') ~ ', typeof(any_value(struct(' ~ _quoted(columns) | join(', ') ~ ')))))) as types'] + more) | join(', ') ~ ' from (\n' ~ touched ~ '\n)') }}
{% endmacro %}


{#- Its answer as bounds; none where the types differ. -#}
{% macro _touched_bounds(row, columns, list_values) %}
    {{ return(_bounds_of(row, columns, list_values) if row['types'] | int == 1 else []) }}
{% endmacro %}


{#- The type of a query's rows, as an expression that reads none of them. -#}
{% macro _type_of(query) %}
    {{ return('typeof((select struct(*) from (\n' ~ query ~ '\n) limit 1))') }}
{% endmacro %}


{#- The whole table anew, its watermark in the same commit. -#}
{% macro _replace(strategy, target, existing, sql, plan) %}
    {%- if strategy == 'history' -%}{%- do _refuse_lost_periods(target, plan, model.config) -%}{%- endif -%}
    {%- if existing is not none and (existing.is_view or not existing.is_delta) -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- if plan.interrupted -%}{%- do _drop_stage(_stage_relation(target, plan.interrupted)) -%}{%- endif -%}
    {%- do _check_input_columns(target, plan.inputs) -%}
    {%- set columns = adapter.get_column_schema_from_query(sql) -%}
    {%- do _check_columns(strategy, target, sql, columns, plan.inputs, model.config) -%}
    {%- if not plan.same_sql -%}{%- do _check_by_rows(strategy, target, sql, plan.inputs, model.config, columns) -%}{%- endif -%}
    {%- do _refuse_keys_of_lookups(strategy, target, sql, plan.inputs, model.config) -%}
    {%- set properties = dict(_created_properties(model.config)) -%}
    {%- do properties.update(_state_properties(strategy, sql, plan.inputs, model.config)) -%}
    {%- set anew = _full_refresh_sql(strategy, sql, model.config, columns) -%}
    {%- set keys = _as_list(config.get('unique_key')) -%}
    {%- if strategy in ['affected_keys', 'signed_sum'] -%}
        {%- set anew = _one_row_a_key_sql(target, keys, anew) -%}
    {%- elif strategy == 'change_feed' and not config.get('latest_by') and _may_repeat_keys(keys, columns, sql) -%}
        {%- do _refuse_repeated_keys(target, none, keys, 'select ' ~ _quoted(keys) | join(', ') ~ ' from (\n' ~ sql ~ '\n) group by all having count(*) > 1') -%}
    {%- endif -%}
    {%- set audit = '' -%}
    {%- set stage = _stage_relation(target) if _expectations(model.config) else none -%}
    {%- if stage -%}
        {%- set marked = "select *, 'insert' as _operation from (\n%s\n)" -%}
        {%- do _create_stage(stage, marked | replace('%s', anew)) -%}
        {%- set audit = _audit(target, stage, marked | replace('%s', _full_refresh_sql(strategy, _followed_sql(compiled_code, model.config, kept=false), model.config, columns)), model.config) -%}
        {%- set anew = 'select * except (_operation) from ' ~ stage -%}
    {%- endif -%}
    {%- if config.get('contract').enforced -%}
        {%- do get_assert_columns_equivalent(anew) -%}
    {%- endif -%}
    {%- do run_query(_create_or_replace_sql(target, anew, properties, columns)) -%}
    {%- if stage -%}{%- do _drop_stage(stage) -%}{%- endif -%}
    {%- set metrics = _history(target, 1)[0].metrics -%}
    {%- set counts = {'rows_affected': metrics.get('numOutputRows', 0) | int, 'bytes_written': metrics.get('numOutputBytes', 0) | int} -%}
    {{ return({
        'choice': 'replace', 'counts': counts,
        'message': 'replace: ' ~ counts.rows_affected ~ ' rows, ' ~ counts.bytes_written | filesizeformat ~ ', ' ~ plan.reason ~ audit,
    }) }}
{% endmacro %}


{% macro _create_or_replace_sql(target, sql, properties, columns) %}
    {{ return(
        'create or replace table ' ~ target ~ ' using delta\n' ~ partition_cols(label='partitioned by')
        ~ ('\ncluster by (' ~ _quoted(_spelled(config.get('cluster_by'), columns)) | join(', ') ~ ')' if config.get('cluster_by') else '')
        ~ location_clause() ~ comment_clause() ~ '\ntblproperties (' ~ _assignments(properties) ~ ')\nas\n' ~ sql
    ) }}
{% endmacro %}
