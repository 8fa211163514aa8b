{#- A change of SQL that needs no rebuild: scripts/headwaters/analysis/changed.py proves that the table of the new SQL can be made of the
    rows that the table has, and of rows that only the new SQL gives. Afterwards the table is what the new SQL gives at its applied
    versions, and the run continues from there. -#}

{#- Makes the table that of the model's SQL, at its applied versions. Returns `message` and `counts`, whether the table was `replaced`, and
    `refused`, why only a replacement of all would be right. -#}
{% macro hw_patch_table(target, sql, plan) %}
    {%- set held = [] -%}
    {%- for spec in plan.inputs -%}
        {%- do held.append(dict(spec, version=plan.holds[spec.source].version, at=plan.holds[spec.source].at)) -%}
    {%- endfor -%}
    {%- set before = dict(plan, inputs=held, built_by=hw_built_by(sql, model.config)) -%}
    {%- if plan.patch.is_applied -%}
        {%- do hw_drop_interrupted(target, plan) -%}
        {%- set done = {'inserted': 0, 'deleted': 0} -%}
    {%- elif plan.patch.columns -%}
        {{ return(hw_replace_by_patched(target, sql, before)) }}
    {%- else -%}
        {%- set done = hw_patch_rows(target, sql, before) -%}
        {%- if done.refused -%}{{ return(done) }}{%- endif -%}
    {%- endif -%}
    {%- do hw_set_applied_versions(target, before, adapter.noted_proof(model.config, plan.inputs, graph)) -%}
    {{ return({
        'message': 'patch: ' ~ plan.patch.text ~ ', ' ~ done.inserted ~ ' inserted, ' ~ done.deleted ~ ' deleted',
        'counts': {'rows_affected': done.inserted + done.deleted, 'rows_inserted': done.inserted, 'rows_deleted': done.deleted},
    }) }}
{% endmacro %}


{#- Other columns: the table is replaced by what is computed from its own rows, with all that it says of itself, in one commit. -#}
{% macro hw_replace_by_patched(target, sql, plan) %}
    {%- set settings = model.config -%}
    {%- set columns = adapter.get_column_schema_from_query(sql) -%}
    {%- do hw_check_columns(target, sql, columns, plan.inputs, settings) -%}
    {%- do hw_drop_interrupted(target, plan) -%}
    {%- set rows = hw_patched_rows_sql(target ~ ' version as of ' ~ plan.seen.version, plan.patch) -%}
    {%- if plan.patch.dropped -%}
        {%- set rows = hw_with_inserted_sql(rows, hw_inserted_by_patch_sql(sql, plan, columns)) -%}
    {%- endif -%}
    {%- set properties = hw_properties_of_replacement(sql, plan.inputs, columns, settings) -%}
    {%- if (settings.get('contract') or {}).enforced -%}{%- do get_assert_columns_equivalent(rows) -%}{%- endif -%}
    {%- set failure = hw_failure_at_versions(hw_create_or_replace_sql(target, rows, properties, columns, settings)) -%}
    {%- if failure -%}{{ return({'refused': failure}) }}{%- endif -%}
    {%- set counts = hw_counts_of_replacement(target) -%}
    {{ return({
        'replaced': true, 'counts': counts,
        'message': 'patch: ' ~ plan.patch.text ~ ', ' ~ counts.rows_affected ~ ' rows, ' ~ counts.bytes_written | filesizeformat,
    }) }}
{% endmacro %}


{% macro hw_with_inserted_sql(rows, inserted) -%}
{{ rows }}
union all
{{ inserted }}
{%- endmacro %}


{#- The rows that the new SQL gives at the applied versions and the old one did not. -#}
{% macro hw_inserted_by_patch_sql(sql, plan, columns) -%}
    {%- set settings = model.config -%}
    {%- set sql = hw_at_versions(sql, hw_versions_json(plan.inputs)) -%}
select * from (
{{ hw_full_refresh_sql(adapter.strategy_of(settings), sql, settings, columns) }}
) where ({{ plan.patch.dropped }}) is not true
{%- endmacro %}


{#- Rows that are deleted, or inserted, or both: in one commit, which the run notes before. -#}
{% macro hw_patch_rows(target, sql, plan) %}
    {%- set settings = model.config -%}
    {%- do hw_note_run(target, plan, [plan.interrupted] if plan.interrupted else []) -%}
    {%- set staged = hw_stage_patch(target, sql, plan) if plan.patch.dropped else {} -%}
    {%- set since = {'refused': staged.refused} if staged.refused else hw_commits_since_plan(target, plan, settings) -%}
    {%- if since.refused -%}
        {%- set done = since -%}
    {%- elif not plan.patch.dropped -%}
        {%- set done = {'inserted': 0, 'deleted': run_query(hw_delete_unkept_sql(target, plan.patch)).rows[0][0] | int} -%}
    {%- elif hw_has_key(settings) -%}
        {%- set done = hw_apply_staged(target, staged.stage, staged['keys'], settings, staged.look, since.engine, check_target=true) -%}
    {%- else -%}
        {%- set done = hw_apply_without_key(target, staged.stage, staged.columns, staged.look) -%}
    {%- endif -%}
    {%- if staged.stage -%}{%- do hw_drop_staging_table(staged.stage) -%}{%- endif -%}
    {{ return(done) }}
{% endmacro %}


{#- DELETE takes no options, so its condition carries the run's name, in a comparison that is always true and that Spark cannot know to
    be. -#}
{% macro hw_delete_unkept_sql(target, patch) -%}
    {%- set name = hw_quote((adapter.get_columns_in_relation(target) | first).name) -%}
    {%- set signature = hw_literal(adapter.signature(hw_run_id())) -%}
delete from {{ target }}
where ({{ patch.kept }}) is not true and concat(hex(xxhash64({{ name }})), {{ signature }}) <> ''
{%- endmacro %}


{#- Stages what is inserted, and what is deleted. Returns `stage`, `keys`, `columns` and `look`, or `refused`. -#}
{% macro hw_stage_patch(target, sql, plan) %}
    {%- set settings = model.config -%}
    {%- set stage, columns = hw_staging_relation(target), adapter.get_columns_in_relation(target) -%}
    {%- set keys = hw_as_list(settings.unique_key) + adapter.strategy_of(settings).further_keys | list -%}
    {%- set before = hw_beside_sql(settings) -%}
    {%- set inserted = hw_inserted_by_patch_sql(sql, plan, adapter.get_column_schema_from_query(sql)) -%}
    {%- set rows = hw_staged_by_patch_sql(target, inserted, before, plan.patch) -%}
    {%- set failure = hw_failure_at_versions(hw_create_staging_table_sql(stage, rows)) -%}
    {%- if failure -%}{{ return({'stage': stage, 'refused': failure}) }}{%- endif -%}
    {%- set look = hw_inspect_staged(target, stage, keys, settings) if hw_has_key(settings) else hw_inspect_without_key(target, stage) -%}
    {#- a key that is deleted and inserted is no change set; one that is inserted twice is refused by the replacement -#}
    {%- set refused = 'other rows have its keys' if look.distinct is defined and look.rows > look.distinct else none -%}
    {{ return({'stage': stage, 'keys': keys, 'columns': columns, 'look': look, 'refused': refused}) }}
{% endmacro %}


{#- Of rows that are equal, one is deleted for all. -#}
{% macro hw_staged_by_patch_sql(target, inserted, before, patch) -%}
select *{{ before }}, 'insert' as _operation from (
{{ inserted }}
)
{%- if patch.kept %}
union all
select *{{ before }}, 'delete' as _operation from (
select {{ 'distinct ' if not before }}* from {{ target }} where ({{ patch.kept }}) is not true
)
{%- endif %}
{%- endmacro %}


{#- Runs a statement over inputs at their applied versions. Returns that they cannot be read, where they cannot. -#}
{% macro hw_failure_at_versions(statement) %}
    {%- set answer = adapter.answer_of(statement, ['FAILED_READ_FILE', 'DELTA_FILE_NOT_FOUND', 'DELTA_FILE_OR_DIR_NOT_FOUND',
        'DELTA_VERSION', 'DELTA_LOG_FILE_NOT_FOUND', 'DELTA_TRUNCATED_TRANSACTION_LOG']) -%}
    {{ return('its inputs can no longer be read at the applied versions' if answer.failure else none) }}
{% endmacro %}
