{% macro explain_refresh(model) %}
    {%- set nodes = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | selectattr('name', 'equalto', model) | list -%}
    {%- if not nodes -%}
        {{ hw_raise('NO_SUCH_MODEL', "explain_refresh: there is no model '" ~ model ~ "'. Models: "
            ~ graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | map(attribute='name') | sort | join(', ')) }}
    {%- endif -%}
    {%- set node = nodes[0] -%}
    {%- set strategy = node.config.get('incremental_strategy') -%}
    {%- if node.config.materialized != 'incremental' or not adapter.strategy_of(node.config) -%}
        {{ hw_raise('NO_MODEL_OF_TABLE', "explain_refresh: " ~ model ~ ' is a ' ~ node.config.materialized ~ ' model'
            ~ (' with incremental_strategy ' ~ strategy if strategy else '') ~ ': it does not follow change feeds') }}
    {%- endif -%}
    {%- set relation = adapter.get_relation(node.database, node.schema, node.alias) -%}
    {%- set exists = relation is not none and relation.is_delta -%}
    {%- set state = hw_applied_state(relation) if exists else none -%}
    {%- set settled = hw_settled(node, render(node.raw_code), state.properties if state else {}) -%}
    {%- set settings = settled.settings -%}
    {%- set sql = hw_followed_sql(settled.sql, settings) -%}
    {%- set plan = hw_plan_run(relation or node.relation_name, exists, sql, settings, false, state) -%}
    {%- set lines = [node.schema ~ '.' ~ node.alias ~ ' (' ~ ('auto: ' if strategy == 'auto') ~ settings.incremental_strategy
        ~ (', unique_key ' ~ hw_as_list(settings.unique_key) | join(', ') if settings.unique_key) ~ ')'] -%}
    {%- for spec in plan.inputs -%}{%- do lines.append(hw_explained_input(spec, plan)) -%}{%- endfor -%}
    {%- for stage in (settings.stages or {}).get('tables', []) -%}
        {%- do lines.append('  hidden table ' ~ node.schema ~ '.' ~ node.alias ~ '__hw_stage_' ~ loop.index ~ ' by '
            ~ stage.unique_key | join(', ') ~ ', of ' ~ stage.inputs | join(', ')) -%}
    {%- endfor -%}
    {%- if settings.derivation -%}
        {%- do lines.append('  derived: ' ~ ('not everything is followed: ' ~ settings.derivation.reason if settings.derivation.reason
            else 'its SQL proves that ' ~ settings.incremental_strategy ~ ' maintains it')
            ~ (', by ' ~ settings.derivation.leads.key | join(', ') if settings.derivation.leads else '')) -%}
    {%- elif settings.get('incremental_proof') == 'sample' -%}
        {%- do lines.append('  proof: none, a sample of rows (incremental_proof: sample)') -%}
    {%- else -%}
        {%- do lines.append('  proof: ' ~ (hw_refusal(adapter.prepared_sql(settled.sql), settings)
            or 'its SQL proves that ' ~ strategy ~ ' maintains it')) -%}
    {%- endif -%}
    {%- do lines.append('  next run: ' ~ (plan.reason if plan.patch else plan.choice ~ ', ' ~ plan.reason)) -%}
    {{ print(lines | join('\n')) }}
{% endmacro %}


{% macro hw_explained_input(spec, plan) %}
    {%- set held = (plan.holds or {}).get(spec.source) -%}
    {%- set range = (plan.lookups if spec.kind == 'lookup' else plan.ranges).get(spec.source) -%}
    {%- set waiting = (range.commits ~ ' commits, ' ~ range.rows ~ ' rows waiting') if range else 'not read yet' if not held
        else 'nothing waiting' if held.version == spec.version
        else (spec.version - held.version) ~ ' versions waiting' -%}
    {{ return('  ' ~ spec.kind ~ ' ' ~ spec.source ~ hw_explained_key(spec) ~ ': applied ' ~ (held.version if held else '-') ~ ', newest '
        ~ spec.version ~ ', ' ~ waiting) }}
{% endmacro %}


{#- By which columns the changes of an input are followed: ` by id`, ` by customer_id = id of silver.orders`. -#}
{% macro hw_explained_key(spec) %}
    {%- set pairs = [] -%}
    {%- for one, other in (spec.on if spec.via else spec.key or {}).items() -%}
        {%- do pairs.append(one if one == other else one ~ ' = ' ~ other) -%}
    {%- endfor -%}
    {{ return((' by ' ~ pairs | join(', ') ~ (' of ' ~ spec.via if spec.via else '')) if pairs else '') }}
{% endmacro %}
