{#- What the target table says about itself, in one statement: `sql`, the text that built it; `inputs`, the applied version of each input,
    each none where the table does not say; `properties`. -#}
{% macro hw_applied_state(relation) %}
    {%- set properties = hw_properties_of(relation) -%}
    {{ return({
        'sql': properties.get('headwaters.sql'),
        'inputs': fromjson(properties.get('headwaters.inputs', 'null')),
        'properties': properties,
    }) }}
{% endmacro %}


{#- What built a table, to tell whether the model is still the one: its SQL without versions, and whatever else says what
    rows it gives: settings of the model and of the session, and SQL functions that it calls. -#}
{% macro hw_built_by(sql, settings) %}
    {%- set text = hw_without_versions(sql) -%}
    {%- set strategy = adapter.strategy_of(settings).configured_as -%}
    {%- set keys, order = hw_as_list(settings.get('unique_key')), hw_as_list(settings.get('latest_by')) -%}
    {{ return('/* built by ' ~ tojson([strategy, keys, order, settings.get('derived', {}), adapter.surroundings(text)]) ~ ' */\n' ~ text) }}
{% endmacro %}


{#- What a table that is replaced says of itself: what built it, the applied versions of its inputs, and what its strategy
    adds. A sample has applied no version. -#}
{% macro hw_state_properties(sql, inputs, settings) %}
    {%- set properties = {
        'headwaters.sql': hw_built_by(sql, settings), 'headwaters.proof': adapter.noted_proof(settings, inputs, graph)
    } -%}
    {%- if not inputs | selectattr('version', 'none') | list -%}
        {%- do properties.update({'headwaters.inputs': tojson(hw_versions_json(inputs)), 'headwaters.run': tojson({'id': hw_run_id()})}) -%}
        {%- do properties.update(hw_hook(adapter.strategy_of(settings), 'state_properties')(inputs)) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- The versions of a model's inputs, as the table's properties keep them. -#}
{% macro hw_versions_json(inputs) %}
    {%- set versions = {} -%}
    {%- for spec in inputs -%}
        {%- do versions.update({spec.source: {'version': spec.version, 'at': spec.at}}) -%}
    {%- endfor -%}
    {{ return(versions) }}
{% endmacro %}


{#- Records in the target that the plan's inputs are applied at their versions, by this run. `proof`: what was proven, none where
    nothing had to be. `built_by` of the plan: what the table is the result of, where this run has changed it. -#}
{% macro hw_set_applied_versions(target, plan, proof=none) %}
    {%- set further = {'headwaters.proof': proof} if proof else {} -%}
    {%- if plan.built_by -%}{%- do further.update({'headwaters.sql': plan.built_by}) -%}{%- endif -%}
    {%- do run_query(hw_set_properties_sql(target, dict({
        'headwaters.inputs': tojson(hw_versions_json(plan.inputs)), 'headwaters.run': tojson({'id': hw_run_id(), 'seen': plan.seen}),
        'headwaters.columns': tojson(plan.columns), 'headwaters.pending': 'null',
        'headwaters.layout': adapter.layout_note(plan.detail, plan.seen),
    }, **further))) -%}
{% endmacro %}


{#- Notes in the target what this run is about to apply, before it does: see scripts/headwaters/incremental/recovery.py.
    Another run of the model that is still writing fails on this commit, which changes the table's metadata; one that has
    not begun to write finds its staging table dropped. `built_by` of the plan: what the table is the result of once this run has written,
    where it changes that. It is noted as a digest: a note with a text in which Spark suspects a secret could not be read. -#}
{% macro hw_note_run(target, plan, others) %}
    {%- for run in others -%}{%- do hw_drop_staging_table(hw_staging_relation(target, run)) -%}{%- endfor -%}
    {%- set note = {'id': hw_run_id(), 'seen': plan.seen, 'inputs': hw_versions_json(plan.inputs)} -%}
    {%- if plan.built_by -%}{%- do note.update({'built_by': local_md5(plan.built_by)}) -%}{%- endif -%}
    {%- set properties = {'headwaters.pending': tojson(note)} -%}
    {%- if plan.interrupted -%}
        {#- what that run applied is known by its commit, which its own note, now replaced, named -#}
        {%- do properties.update({'headwaters.inputs': tojson(plan.holds),
            'headwaters.run': tojson({'id': hw_run_id(), 'seen': plan.seen})}) -%}
    {%- endif -%}
    {%- do run_query(hw_set_properties_sql(target, properties)) -%}
{% endmacro %}


{#- Drops the staging table of the run that did not finish, if there was one. -#}
{% macro hw_drop_interrupted(target, plan) %}
    {%- if plan.interrupted -%}{%- do hw_drop_staging_table(hw_staging_relation(target, plan.interrupted)) -%}{%- endif -%}
{% endmacro %}


{#- Asks, before the rows are written, what happened to the target since this run planned from it. Returns `engine`, which this run
    runs on, and `refused`, why only a replacement would be right. Fails where another run of the model has made this one's work void. -#}
{% macro hw_commits_since_plan(target, plan, settings) %}
    {%- set taken_over = [] -%}
    {%- for attempt in range(5) -%}
        {%- set meanwhile = adapter.since(hw_describe_history(target, 20), plan.seen, hw_run_id()) -%}
        {%- if meanwhile.superseded -%}
            {%- do hw_drop_staging_table(hw_staging_relation(target)) -%}
            {{ hw_raise('CONCURRENT_RUN',
                target ~ ': ' ~ meanwhile.superseded ~ ' came in between, so this run wrote nothing. Run one dbt at a time '
                    ~ 'for a model, and run this one again.'
            ) }}
        {%- elif meanwhile.foreign and hw_on_foreign_write(target, meanwhile.foreign, settings) == 'rebuild' -%}
            {{ return({'refused': meanwhile.foreign ~ ' changed the table while this run read it'}) }}
        {%- endif -%}
        {%- set others = meanwhile.others | reject('in', taken_over) | list -%}
        {%- if not others -%}{{ return({'engine': meanwhile.engine}) }}{%- endif -%}
        {%- do hw_note_run(target, plan, others) -%}
        {%- do taken_over.extend(others) -%}
    {%- endfor -%}
{% endmacro %}


{#- What to do about rows of a model's table that something else than a run of the model changed: `rebuild`, or `warn`, which was said. -#}
{% macro hw_on_foreign_write(relation, change, settings) %}
    {%- set choice = hw_choice_of_foreign_write(settings) -%}
    {%- set what = relation ~ ' was changed by ' ~ change ~ ', which is no run of its model' -%}
    {%- if choice == 'fail' -%}
        {{ hw_raise('FOREIGN_WRITE',
            what ~ '. on_foreign_write is fail, so the table was left as it is; `dbt run --full-refresh --select ' ~ relation.identifier
                ~ '` replaces it by what its SQL gives.'
        ) }}
    {%- elif choice == 'warn' -%}
        {%- do exceptions.warn(what ~ ': its rows may differ from what a full refresh gives (on_foreign_write is warn)') -%}
    {%- endif -%}
    {{ return(choice) }}
{% endmacro %}


{#- What the target has applied, by its properties and its own history, whatever was interrupted and whoever else wrote:
    `inputs`, none where the history does not tell; `foreign`; `interrupted`; `seen`, the newest commit that was looked
    at; and `commits`, those that had to be. -#}
{% macro hw_applied_versions(relation, state) %}
    {%- for limit in [20, 1000, 1000000] -%}
        {%- set commits = hw_describe_history(relation, limit) -%}
        {%- set applied = adapter.applied_versions(state.properties, commits, commits | length < limit) -%}
        {%- if applied -%}
            {{ return({
                'inputs': applied.inputs, 'foreign': applied.foreign, 'interrupted': applied.interrupted, 'built_by': applied.built_by,
                'seen': {'version': commits[0].version, 'at': commits[0].at}, 'commits': commits,
            }) }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
