{#- Replaces dbt-spark's incremental materialization. The strategies that follow an input's change data feed are run here, in the
    order of docs/flow/incremental.md; the others are dbt-spark's, corrected, in stock_strategies.sql. -#}
{% materialization incremental, adapter='headwaters', supported_languages=['sql', 'python'] %}
    {%- if not adapter.strategy_of(model.config) -%}
        {{ return(hw_run_stock_strategy(config.get('incremental_strategy') or 'append')) }}
    {%- endif -%}
    {%- set target = this.incorporate(type='table', is_delta=true) -%}
    {%- set existing = load_cached_relation(this) -%}
    {%- set exists = existing is not none and existing.is_delta and not existing.is_view -%}
    {%- set digest = hw_digest_of_run(exists) -%}
    {%- if digest and adapter.is_unchanged(model.unique_id, digest, selected_resources) -%}
        {{ return(hw_leave_unchanged(target)) }}
    {%- endif -%}
    {%- set state = hw_settle_strategy(target, exists) -%}
    {%- set sql = hw_followed_sql(model.compiled_code, model.config) -%}
    {%- do hw_check_model(sql, model.config) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set plan = dict(hw_plan_run(target, exists, sql, model.config, should_full_refresh(), state), digest=digest) -%}
    {%- do hw_require_proof(target, plan) -%}
    {%- if plan.choice != 'replace' and not plan.patch and plan.detail -%}
        {%- do hw_reconcile_table(target, plan.detail) -%}
    {%- endif -%}
    {%- set result = hw_run_plan(target, existing, sql, plan) -%}
    {%- do hw_drop_released() -%}
    {%- do store_result('main', response=adapter.run_response(result.message, result.choice, **result.counts)) -%}

    {%- if result.choice == 'replace' or result.replaced -%}
        {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=true)) -%}
        {%- do persist_docs(target, model) -%}
        {%- do persist_constraints(target, model) -%}
    {%- elif result.choice != 'skip' -%}
        {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=false)) -%}
    {%- endif -%}

    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}


{#- Makes the table that of the model's SQL, and then carries out what is left to be done: planned from the table as it is, as a run
    would that finds it so. It is reconciled in between: only the new rows meet the new checks. Returns what `hw_run_plan` does. -#}
{% macro hw_run_patched(target, existing, sql, plan) %}
    {%- do hw_drop_other_checks(target, plan.detail) -%}
    {%- set patched = hw_patch_table(target, sql, plan) -%}
    {%- if patched.refused -%}
        {{ return(hw_replace_instead(target, existing, sql, plan, patched.refused)) }}
    {%- endif -%}
    {%- set left = hw_plan_run(target, true, sql, model.config) -%}
    {%- if left.choice != 'replace' and left.detail -%}{%- do hw_reconcile_table(target, left.detail) -%}{%- endif -%}
    {%- set result = hw_run_plan(target, existing, sql, left) -%}
    {%- set counts = dict(patched.counts) -%}
    {%- for name, count in result.counts.items() -%}{%- do counts.update({name: counts.get(name, 0) + count}) -%}{%- endfor -%}
    {{ return({
        'choice': 'replace' if result.choice == 'replace' else 'patch', 'counts': counts, 'replaced': patched.replaced,
        'message': patched.message ~ '; then ' ~ result.message,
    }) }}
{% endmacro %}


{#- Carries a plan out. Returns choice, message and counts, and whether a patch has `replaced` the table. -#}
{% macro hw_run_plan(target, existing, sql, plan) %}
    {%- if plan.patch -%}
        {{ return(hw_run_patched(target, existing, sql, plan)) }}
    {%- elif plan.choice == 'skip' -%}
        {{ return(hw_skip(target, plan)) }}
    {%- elif plan.choice == 'replace' -%}
        {{ return(hw_replace_table(target, existing, sql, plan)) }}
    {%- endif -%}
    {%- set began = adapter.moment() -%}
    {%- set staged = hw_stage_change_set(target, sql, plan) -%}
    {%- if staged.gap or staged.refused -%}{%- do hw_drop_stored_parts(plan) -%}{%- endif -%}
    {%- if staged.gap -%}
        {%- do hw_fail_on_gap(target, staged.gap, model.config) -%}
        {{ return(hw_replace_instead(target, existing, sql, plan, staged.gap)) }}
    {%- elif staged.refused -%}
        {{ return(hw_replace_instead(target, existing, sql, plan, staged.refused)) }}
    {%- endif -%}
    {%- set applied = hw_apply_change_set(target, plan, staged) -%}
    {%- do hw_drop_stored_parts(plan) -%}
    {%- if applied.refused -%}
        {%- do hw_drop_staging_table(staged.stage) -%}
        {{ return(hw_replace_instead(target, existing, sql, plan, applied.refused)) }}
    {%- endif -%}
    {%- set seconds = (adapter.moment() - began) / 1000 -%}
    {%- do hw_set_applied_versions(target, plan, adapter.noted_proof(model.config, plan.inputs, graph)) -%}
    {%- set served = hw_served(model.config) if applied.rows > applied.inserted else [] -%}
    {%- if served -%}
        {%- do adapter.hand_on(target | string, hw_run_id(), staged.stage | string, hw_beside_names(model.config), served) -%}
    {%- else -%}
        {%- do hw_drop_staging_table(staged.stage) -%}
    {%- endif -%}
    {{ return(hw_result_of(applied, plan, seconds)) }}
{% endmacro %}


{#- What an incremental run could not do, a replacement does. -#}
{% macro hw_replace_instead(target, existing, sql, plan, reason) %}
    {{ return(hw_replace_table(target, existing, sql, dict(plan, reason=reason))) }}
{% endmacro %}


{#- Commits that changed no rows need not be read again and again, those of the inputs and those of the table. -#}
{% macro hw_skip(target, plan) %}
    {%- set versions = (plan.ranges.values() | list + plan.lookups.values() | list) | map(attribute='versions') | sum -%}
    {%- if plan.interrupted or versions > 10 or plan.commits | default(0) > 20 -%}
        {%- do hw_drop_interrupted(target, plan) -%}
        {%- do hw_set_applied_versions(target, plan) -%}
    {%- else -%}
        {%- do hw_note_unchanged(target, plan) -%}
    {%- endif -%}
    {{ return({'choice': 'skip', 'message': 'no changes', 'counts': {'rows_affected': 0}}) }}
{% endmacro %}


{#- Notes the run in the target and stages what it changes. Returns `gap` or `refused`, why the table has to be replaced,
    or: `stage`, the staging table; `key_columns`; `look`, what hw_inspect_staged says of it; `sql`, the change set's, and
    `columns` and `bounds`, which it was made with. -#}
{% macro hw_stage_change_set(target, sql, plan) %}
    {%- set settings = model.config -%}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set columns = adapter.get_columns_in_relation(target) if strategy.needs_types or not hw_has_key(settings) else [] -%}
    {%- set gap = hw_refuse_keys_of_lookups(target, sql, plan.inputs, settings, plan) -%}
    {%- set known = {'gap': gap} if gap else hw_hook(strategy, 'facts_before_staging')(target, sql, plan, settings) -%}
    {%- if known.gap -%}
        {{ return({'gap': known.gap}) }}
    {%- elif not known.same_columns -%}
        {{ return({'refused': 'the columns changed'}) }}
    {%- endif -%}
    {%- set bounds = known.bounds -%}
    {%- do plan.update({'facts': known}) -%}
    {%- do hw_note_run(target, plan, [plan.interrupted] if plan.interrupted else []) -%}
    {%- set stage = hw_staging_relation(target) -%}
    {%- set gap = hw_stage_changes(stage, hw_change_set_sql(strategy, target, sql, plan, settings, columns, bounds), plan) -%}
    {%- if gap -%}
        {{ return({'gap': gap}) }}
    {%- endif -%}
    {%- set keys = hw_as_list(settings.unique_key) + strategy.further_keys | list -%}
    {%- if not hw_has_key(settings) -%}
        {{ return({'stage': stage, 'key_columns': [], 'look': hw_inspect_without_key(target, stage), 'columns': columns,
            'bounds': bounds}) }}
    {%- endif -%}
    {%- set is_pruned = strategy.prunes_inserts and hw_way_of_plan(plan) == 'inserts' -%}
    {%- set look = hw_inspect_staged(target, stage, keys, settings, bounds if is_pruned else []) -%}
    {%- if look.misplaced -%}
        {%- set bounds = bounds[:keys | length] -%}
        {%- do hw_drop_staging_table(stage) -%}
        {%- do hw_create_staging_table(stage, hw_change_set_sql(strategy, target, sql, plan, settings, columns, bounds)) -%}
        {%- set look = hw_inspect_staged(target, stage, keys, settings) -%}
    {%- endif -%}
    {%- do hw_hook(strategy, 'inspect')(target, stage, keys, look, sql, settings) -%}
    {{ return({'stage': stage, 'key_columns': keys, 'look': look, 'columns': columns, 'bounds': bounds}) }}
{% endmacro %}


{#- Applies what was staged, unless somebody else changed the table meanwhile. Returns the counts, `audit`, and `refused`,
    why the table has to be replaced. -#}
{% macro hw_apply_change_set(target, plan, staged) %}
    {%- set settings = model.config -%}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set audit = '' -%}
    {%- if adapter.expectations_of(settings) -%}
        {%- set unfiltered = hw_followed_sql(model.compiled_code, settings, kept=false) -%}
        {%- set known = {} if plan.facts.of_rows else plan.facts -%}
        {%- set rows = hw_change_set_sql(strategy, target, unfiltered, dict(plan, facts=known), settings, staged.columns,
            known.bounds or []) -%}
        {%- set audit = hw_audit_staged(target, staged.stage, hw_rows_alone_sql(rows, settings), settings) -%}
    {%- endif -%}
    {%- set since = hw_commits_since_plan(target, plan, settings) -%}
    {%- if since.refused -%}
        {{ return(since) }}
    {%- endif -%}
    {%- if not hw_has_key(settings) -%}
        {{ return(dict(hw_apply_without_key(target, staged.stage, staged.columns, staged.look), audit=audit)) }}
    {%- endif -%}
    {{ return(dict(hw_apply_staged(target, staged.stage, staged.key_columns, settings, staged.look, since.engine,
        check_target=strategy.computes_old_rows), audit=audit)) }}
{% endmacro %}


{% macro hw_result_of(applied, plan, seconds) %}
    {%- set choice = 'skip' if applied.rows == 0 else 'append' if applied.rows == applied.inserted else 'merge' -%}
    {%- set done = choice ~ ': ' ~ applied.inserted ~ ' inserted, ' ~ applied.updated ~ ' updated, ' ~ applied.deleted ~ ' deleted, '
        ~ applied.bytes | filesizeformat ~ (', by MERGE (' ~ applied.why_merge ~ ')' if applied.why_merge) -%}
    {{ return({
        'choice': choice,
        'message': ('no changes' if applied.rows == 0 else done) ~ ', of ' ~ plan.rows ~ ' changed input rows' ~ applied.audit,
        'counts': {
            'rows_affected': applied.rows, 'rows_inserted': applied.inserted, 'rows_updated': applied.updated,
            'rows_deleted': applied.deleted,
            'input_rows': plan.rows, 'bytes_written': applied.bytes, 'seconds': seconds | round(1),
        },
    }) }}
{% endmacro %}
