{% macro explain_refresh(model) %}
    {%- set nodes = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | selectattr('name', 'equalto', model) | list -%}
    {%- if not nodes -%}
        {{ hw_raise('HW_NO_SUCH_MODEL', "explain_refresh: there is no model '" ~ model ~ "' (`headwaters explain` shows seeds). Models: "
            ~ graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') | map(attribute='name') | sort | join(', ')) }}
    {%- endif -%}
    {%- set node = nodes[0] -%}
    {%- set strategy = node.config.get('incremental_strategy') -%}
    {%- if node.config.materialized != 'incremental' or not adapter.analysis.strategy_of(node.config) -%}
        {{ hw_raise('HW_NO_MODEL_OF_TABLE', 'explain_refresh: ' ~ model ~ ' is materialized as ' ~ node.config.materialized
            ~ (' with incremental_strategy ' ~ strategy if strategy else '')
            ~ ', which has no plan. `materialized: incremental` with `incremental_strategy: auto` has one') }}
    {%- endif -%}
    {{ print(adapter.runs.explain(context, node, adapter.get_relation(node.database, node.schema, node.alias))) }}
{% endmacro %}
