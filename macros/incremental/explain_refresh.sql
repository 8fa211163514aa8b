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
    {%- set code = render(node.raw_code) -%}
    {%- set sql = hw_followed_sql(code, node.config) -%}
    {%- set plan = hw_plan_run(relation or node.relation_name, relation is not none and relation.is_delta, sql, node.config) -%}
    {%- set lines = [node.schema ~ '.' ~ node.alias ~ ' (' ~ strategy ~ ', unique_key '
        ~ hw_as_list(node.config.unique_key) | join(', ') ~ ')'] -%}
    {%- for spec in plan.inputs -%}
        {%- set held = (plan.holds or {}).get(spec.source) -%}
        {%- set range = (plan.lookups if spec.kind == 'lookup' else plan.ranges).get(spec.source) -%}
        {%- set waiting = (range.commits ~ ' commits, ' ~ range.rows ~ ' rows waiting') if range else 'not read yet' if not held
            else 'nothing waiting' if held.version == spec.version
            else (spec.version - held.version) ~ ' versions waiting' -%}
        {%- do lines.append('  ' ~ spec.kind ~ ' ' ~ spec.source ~ ': applied ' ~ (held.version if held else '-') ~ ', newest '
            ~ spec.version ~ ', ' ~ waiting) -%}
    {%- endfor -%}
    {%- if node.config.get('incremental_proof') == 'sample' -%}
        {%- do lines.append('  proof: none, a sample of rows (incremental_proof: sample)') -%}
    {%- else -%}
        {%- do lines.append('  proof: ' ~ (hw_refusal(adapter.prepared_sql(code), node.config)
            or 'its SQL proves that ' ~ strategy ~ ' maintains it')) -%}
    {%- endif -%}
    {%- do lines.append('  next run: ' ~ plan.choice ~ ', ' ~ plan.reason) -%}
    {{ print(lines | join('\n')) }}
{% endmacro %}
