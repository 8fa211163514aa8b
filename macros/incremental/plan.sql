{#- What the next run of a model does and why; changes nothing. Facts are gathered here, decisions are in
    scripts/headwaters/incremental/plan.py. Returns choice (`skip`, `replace`, `incremental`), reason, inputs (the pinned
    inputs of the SQL), ranges (for each changing input's source: what `hw_range` says), lookups (the same for lookups),
    holds (the applied versions), rows (that changed), same_sql (the model's SQL built the table, over the same columns),
    columns (digests of those of the inputs), interrupted (the name of a run that did not finish), and seen (the newest commit of the
    target, which the plan is made from), patch (what makes the table that of the model's SQL before, or none), and, empty until a run fills
    them, facts (what `facts_before_staging` found) and stored (the parts that it stored).
    `state`: what the table says of itself, if it was read already. -#}
{% macro hw_plan_run(relation, exists, sql, settings, full_refresh=false, state=none) %}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- for spec in inputs if spec.kind == 'affected' and spec.key -%}
        {%- do spec.update({'stored': hw_partitions_among(spec.key, settings), 'read': adapter.columns_read(spec.source, inputs)}) -%}
    {%- endfor -%}
    {%- set plan = {'choice': 'replace', 'reason': '', 'inputs': inputs, 'ranges': {}, 'lookups': {}, 'holds': none,
        'interrupted': none, 'seen': none, 'proof': state.properties.get('headwaters.proof') if state else none,
        'same_sql': false, 'facts': {}, 'stored': []} -%}
    {%- set decision = adapter.plan_of_request(
        exists=exists, is_empty=flags.EMPTY, is_sample=inputs | selectattr('version', 'none') | list | length > 0, full_refresh=full_refresh
    ) -%}
    {%- if decision -%}
        {{ return(dict(plan, choice=decision.choice, reason=decision.reason)) }}
    {%- endif -%}
    {%- set state = state or hw_applied_state(relation) -%}
    {%- set applied = hw_applied_versions(relation, state) -%}
    {%- set detail = adapter.noted_detail(state.properties, applied.commits) or run_query('describe detail ' ~ relation).rows[0] -%}
    {%- do plan.update({'holds': state.inputs, 'detail': detail, 'proof': state.properties.get('headwaters.proof')}) -%}
    {%- set built_by = hw_built_by(sql, settings) -%}
    {%- set change = hw_change_since(relation, state, applied, sql, settings) -%}
    {%- set decision = adapter.plan_of_state(
        inputs=state.inputs, built_by=built_by if change.is_same or change.patch else change.built_by, would_be_built_by=built_by,
        why_not=change.why_not,
        partitions=hw_as_names(detail['partitionColumns']),
        clustering=hw_as_names(detail['clusteringColumns']), partition_by=hw_as_list(settings.get('partition_by'))
    ) -%}
    {%- if decision -%}
        {{ return(dict(plan, choice=decision.choice, reason=decision.reason)) }}
    {%- endif -%}
    {%- do plan.update({'same_sql': not change.patch, 'patch': change.patch}) -%}
    {%- set plan = hw_plan_of_inputs(relation, state, applied, sql, settings, plan) -%}
    {%- if plan.patch and plan.choice != 'replace' -%}
        {{ return(dict(plan, reason='patch: ' ~ plan.patch.text ~ '; then ' ~ plan.choice ~ ': ' ~ plan.reason)) }}
    {%- endif -%}
    {{ return(dict(plan, patch=none)) }}
{% endmacro %}


{#- The plan of a table that this model built; `applied`: what hw_applied_versions says of it. -#}
{% macro hw_plan_of_inputs(relation, state, applied, sql, settings, plan) %}
    {%- do plan.update({'holds': applied.inputs}) -%}
    {%- if applied.inputs is none -%}
        {{ return(dict(plan, reason='the table does not say which run wrote it')) }}
    {%- endif -%}
    {%- do plan.update({'interrupted': applied.interrupted, 'foreign': applied.foreign, 'seen': applied.seen,
        'commits': applied.commits | length}) -%}
    {%- if applied.foreign and hw_on_foreign_write(relation, applied.foreign, settings) == 'rebuild' -%}
        {{ return(dict(plan, reason='the table was changed by ' ~ applied.foreign ~ ', which is no run of its model')) }}
    {%- endif -%}
    {%- set obstacle = hw_read_ranges(relation, settings, plan) -%}
    {%- if obstacle -%}
        {{ return(dict(plan, reason=obstacle)) }}
    {%- endif -%}
    {%- do plan.update({'rows': plan.ranges.values() | map(attribute='rows') | sum}) -%}
    {%- set added = hw_added_columns(state, plan) -%}
    {%- if added and (plan.patch or not adapter.keeps_meaning(sql, plan.inputs, added)
        or hw_column_names(hw_columns_of_full_refresh(sql, settings)) != hw_column_names(adapter.get_columns_in_relation(relation))) -%}
        {{ return(dict(plan, reason='an input has a new column, ' ~ added[0], same_sql=false)) }}
    {%- endif -%}
    {%- set decision = adapter.plan_of_changes(plan.rows) or hw_cheaper_way(relation, sql, settings, plan) -%}
    {{ return(dict(plan, choice=decision.choice, reason=decision.reason)) }}
{% endmacro %}


{#- Decides by the share that changed whether the changes are applied or the table is replaced. -#}
{% macro hw_cheaper_way(relation, sql, settings, plan) %}
    {%- set strategy, above = adapter.strategy_of(settings), settings.get('replace_above') -%}
    {%- if adapter.is_small_change(plan.rows) -%}
        {{ return(adapter.plan_of_share(plan.rows, none, above)) }}
    {%- endif -%}
    {%- set share = hw_hook(strategy, 'share_changed')(relation, sql, plan, settings) -%}
    {%- if share and share.gap -%}
        {%- do hw_fail_on_gap(relation, share.gap, settings) -%}
        {{ return({'choice': 'replace', 'reason': share.gap}) }}
    {%- endif -%}
    {{ return(adapter.plan_of_share(plan.rows, share, above)) }}
{% endmacro %}


{#- Fills in the plan's ranges and lookups: what happened to each input since its applied version. Returns why the changes
    cannot be applied, or none. -#}
{% macro hw_read_ranges(relation, settings, plan) %}
    {%- set follows_lookups = settings.get('on_lookup_change', 'rebuild') == 'rebuild' -%}
    {%- for spec in plan.inputs -%}
        {%- set known = plan.lookups if spec.kind == 'lookup' else plan.ranges -%}
        {%- set held = plan.holds.get(spec.source) -%}
        {%- if not held -%}
            {{ return(spec.source ~ ' is a new input') }}
        {%- elif spec.source not in known and (held.version != spec.version or held.at != spec.at) -%}
            {%- set range = hw_range(spec, held) -%}
            {%- if model is defined and spec.kind not in ['lookup', 'images'] -%}
                {%- set change_set = adapter.handed_on(range, model.unique_id) -%}
                {%- if change_set -%}{%- set range = range.with_rows_at_hand(hw_handed_on_sql(change_set)) -%}{%- endif -%}
            {%- endif -%}
            {%- do known.update({spec.source: range}) -%}
            {%- if range.gap -%}{%- do plan.update({'same_sql': false}) -%}{%- endif -%}
            {%- if spec.kind == 'lookup' and follows_lookups and (range.rows > 0 or range.gap) -%}
                {%- set why = (settings.get('derivation') or {}).get('reason') -%}
                {{ return('lookup ' ~ spec.source ~ ' changed' ~ (', which is not followed: ' ~ why if why else '')) }}
            {%- elif spec.kind != 'lookup' and range.gap -%}
                {%- do hw_fail_on_gap(relation, range.gap, settings) -%}
                {{ return(range.gap) }}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{#- The columns that inputs have now and had not at their applied versions, and those whose type has grown. Fills in `columns`: for
    each input a digest of those that it has. A write may add columns as well, which a commit does not tell. -#}
{% macro hw_added_columns(state, plan) %}
    {%- set noted = fromjson(state.properties.get('headwaters.columns', '{}')) -%}
    {%- set added = [] -%}
    {%- for spec in plan.inputs if spec.columns -%}
        {%- set digest = adapter.columns_digest(spec.columns) -%}
        {%- if noted.get(spec.source) != digest -%}
            {%- set before = hw_columns_at(spec.source, plan.holds[spec.source].version) -%}
            {%- do added.extend(adapter.added_columns(before, spec.columns)) -%}
            {%- do noted.update({spec.source: digest}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do plan.update({'columns': noted}) -%}
    {{ return(added) }}
{% endmacro %}


{#- What an incremental run of the plan does. -#}
{% macro hw_way_of_plan(plan) %}
    {{ return(adapter.way_of_ranges(plan.ranges.values() | list)) }}
{% endmacro %}
