{#- Queries that are cut (scripts/headwaters/analysis/cut.py): what is local to a key is kept in hidden tables, which are maintained as
    tables of affected_keys are. The rest is computed from them in full, and what differs from the table is written. The model's own state
    is that of any other: its whole SQL, and the applied versions of its inputs. So a hidden table may be older or newer than the model's,
    as after a run that was killed: a run first brings each to the versions of the inputs that it has pinned. -#}
{% macro hw_staged__change_set_sql(target, sql, plan, settings, columns, bounds) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- if not keys -%}
        {{ return(hw_counted_change_set_sql(plan.rest, 'select * from ' ~ target, columns)) }}
    {%- endif -%}
    {{ return(hw_compared_sql(target, plan.rest, keys, settings)) }}
{% endmacro %}


{% macro hw_compared_sql(target, rows, keys, settings) -%}
with _computed as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from (
{{ rows }}
)),
_present as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from {{ target }})
{{ hw_classified_sql('_computed', '_present', keys, settings) }}
{%- endmacro %}


{#- Brings the hidden tables to the plan's versions. Fills in `rest`, SQL of the model's rows. Runs the statements of a run for each. -#}
{% macro hw_staged__facts_before_staging(target, sql, plan, settings) %}
    {%- set texts = {} -%}
    {%- for stage in settings.stages.tables -%}
        {%- set hidden = hw_hidden_table(target, loop.index) -%}
        {%- do texts.update({'hw_stage_' ~ loop.index: hidden ~ ' version as of ' ~ hw_run_stage(target, hidden, stage, plan)}) -%}
    {%- endfor -%}
    {%- for name, source in settings.stages.names.items() -%}
        {%- do texts.update({name: hw_input_sql((plan.inputs | selectattr('source', 'equalto', source) | list)[0])}) -%}
    {%- endfor -%}
    {%- do plan.update({'rest': hw_followed_sql(adapter.with_names(settings.stages.rest, texts), settings)}) -%}
    {%- set held, given = hw_type_of('select * from ' ~ target), hw_type_of(plan.rest) -%}
    {%- set types = run_query('select ' ~ held ~ ' as held, ' ~ given ~ ' as given').rows[0] -%}
    {{ return({'bounds': [], 'same_columns': types['held'] == types['given']}) }}
{% endmacro %}


{#- Runs a hidden table as if it were a model. Returns the version that has what its SQL gives over the inputs at the plan's versions. -#}
{% macro hw_run_stage(target, hidden, stage, plan) %}
    {%- set own = {'compiled_code': model.compiled_code, 'config': model.config} -%}
    {%- set settings = hw_settings_of_stage(target, stage) -%}
    {%- set marked = {} -%}
    {%- for name, source in own.config.stages.names.items() if source in stage.inputs -%}
        {%- set spec = (plan.inputs | selectattr('source', 'equalto', source) | list)[0] -%}
        {%- do marked.update({name: hw_marked(dict(stage.inputs[source], source=source, version=spec.version, at=spec.at))}) -%}
    {%- endfor -%}
    {%- set code = adapter.with_names(stage.sql, marked) -%}
    {%- set existing = load_cached_relation(hidden) -%}
    {%- set state = hw_applied_state(hidden) if existing is not none else none -%}
    {%- if state and 'stage_of' not in state.properties.get('headwaters.proof', '') -%}
        {{ hw_raise('HIDDEN_TABLE', target ~ ' keeps a part of its query in ' ~ hidden ~ ', and there is a table of that name which is not '
            ~ 'its own. Rename or drop that one.') }}
    {%- endif -%}
    {%- do model.update({'compiled_code': code, 'config': settings}) -%}
    {%- set sql = hw_followed_sql(code, settings) -%}
    {%- set stage_plan = hw_plan_run(hidden, existing is not none, sql, settings, false, state) -%}
    {%- do hw_run_plan(hidden, existing, sql, stage_plan) -%}
    {%- do model.update(own) -%}
    {{ return(adapter.version_of_run(hw_describe_history(hidden, 20), hw_run_id(), stage_plan.seen)) }}
{% endmacro %}


{#- The model's, as far as they are not about its own columns and readers. -#}
{% macro hw_settings_of_stage(target, stage) %}
    {%- set properties = {} -%}
    {%- set of_columns = 'enableChangeDataFeed|columnMapping|dataSkipping|constraints|enableIcebergCompat|universalFormat' -%}
    {%- for name, value in adapter.declared_properties(model.config).items()
        if not modules.re.match('(?i)delta\\.(' ~ of_columns ~ ')', name) -%}
        {%- do properties.update({name: value}) -%}
    {%- endfor -%}
    {%- set unset = dict.fromkeys(['leads', 'stages', 'partition_by', 'cluster_by', 'prune_by', 'on_gap', 'on_foreign_write',
        'replace_above', 'apply_by', 'location_root', 'contract', 'meta', 'property_set']) -%}
    {{ return(dict(model.config, incremental_strategy='affected_keys', unique_key=stage.unique_key, tblproperties=properties,
        derivation={'stage_of': target | string}, **unset)) }}
{% endmacro %}


{#- What is compared is the table and what its hidden tables give, however much changed. -#}
{% macro hw_staged__share_changed(relation, sql, plan, settings) %}
    {{ return(none) }}
{% endmacro %}
