{#- The declared table properties as text. Layer, folder and model are merged by dbt (scripts/dbt_headwaters.py); a null takes a
    property of the layer away; a property_set, being a promise to other engines, comes last. -#}
{% macro hw_declared_properties(config) %}
    {%- set merged = dict(config.get('tblproperties') or {}) -%}
    {%- do merged.update((config.get('meta') or {}).get('tblproperties') or {}) -%}
    {%- do merged.update(hw_property_sets().get(hw_setting(config, 'property_set'), {})) -%}
    {%- set declared = {} -%}
    {%- for name, value in merged.items() if value is not none -%}
        {%- do declared.update({name: (value | string | lower) if value is boolean else value | string}) -%}
    {%- endfor -%}
    {{ return(declared) }}
{% endmacro %}


{#- What a new table gets: the declared properties, and their names, so that a later run knows which of a table's properties were
    ours to take away. -#}
{% macro hw_created_properties(config) %}
    {%- set declared = hw_declared_properties(config) -%}
    {{ return(dict(declared, **{'headwaters.declared': declared | sort | join(', ')})) }}
{% endmacro %}


{#- Everything declared of a node of the graph that a table can be compared with. -#}
{% macro hw_declared_table(node) %}
    {%- set config = node.config -%}
    {%- set properties = hw_declared_properties(config) -%}
    {%- if node.resource_type == 'source' and hw_setting(config, 'stream') -%}
        {%- set properties = dict({'delta.enableChangeDataFeed': 'true'}, **properties) -%}
    {%- endif -%}
    {%- set checks = {} -%}
    {%- for constraint in node.get('constraints') or [] if constraint.type == 'check' and node.resource_type == 'model' -%}
        {#- an unnamed constraint has the name that dbt-spark gives it -#}
        {%- do checks.update({constraint.name or local_md5(';' ~ constraint.expression ~ ';' ~ loop.index): constraint.expression}) -%}
    {%- endfor -%}
    {{ return({
        'name': node.schema ~ '.' ~ (node.identifier or node.alias),
        'relation': api.Relation.create(schema=node.schema, identifier=node.identifier or node.alias),
        'kind': node.resource_type,
        'properties': properties,
        'cluster_by': hw_as_list(hw_setting(config, 'cluster_by')),
        'partition_by': hw_as_list(hw_setting(config, 'partition_by')),
        'comment': node.description if (config.get('persist_docs') or {}).get('relation') else none,
        'checks': checks,
    }) }}
{% endmacro %}


{#- The nodes of the project that are tables, by name of the table: models, seeds and sources with a stream or declared properties.
    `select`: names of tables (`gold.sessions`), of nodes (`sessions`) or of schemas (`gold`); all where it is none. -#}
{% macro hw_table_nodes(select=none) %}
    {%- set wanted = [] -%}
    {%- for item in hw_as_list(select) -%}{%- do wanted.extend(item.split()) -%}{%- endfor -%}
    {%- set found = {} -%}
    {%- set known = [] -%}
    {%- set hit = [] -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list -%}
        {%- if node.resource_type == 'source' or (node.resource_type in ['model', 'seed'] and node.config.materialized in ['table', 'incremental', 'seed']) -%}
            {%- set identifier = node.identifier or node.alias -%}
            {%- set name = node.schema ~ '.' ~ identifier -%}
            {%- set names = hw_names_of(node) + [node.schema, hw_layer_of(node)] -%}
            {%- do known.extend(hw_names_of(node)) -%}
            {%- for item in wanted if item in names -%}{%- do hit.append(item) -%}{%- endfor -%}
            {%- if not wanted or names | select('in', wanted) | list -%}
                {%- do found.update({name: node}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for item in wanted if item not in hit -%}
        {{ exceptions.raise_compiler_error("select: there is no table, model, source or schema '" ~ item ~ "'" ~ hw_or_nearest(item, known)) }}
    {%- endfor -%}
    {%- set sorted = {} -%}
    {%- for name in found | sort -%}{%- do sorted.update({name: found[name]}) -%}{%- endfor -%}
    {{ return(sorted) }}
{% endmacro %}


{#- The names under which people may speak of a table: its own, in the schemas of any target, and its model's or source's. -#}
{% macro hw_names_of(node) %}
    {%- set identifier = node.identifier or node.alias -%}
    {{ return([hw_layer_of(node) ~ '.' ~ identifier, node.schema ~ '.' ~ identifier, node.name]) }}
{% endmacro %}


{% macro hw_layer_of(node) %}
    {{ return(node.source_name if node.resource_type == 'source' else node.config.get('schema') or node.schema) }}
{% endmacro %}


{% macro hw_or_nearest(given, names) %}
    {%- set near = hw_nearest(given, names) -%}
    {{ return(", did you mean '" ~ near ~ "'" if near else ', there are ' ~ names | unique | sort | join(', ')) }}
{% endmacro %}
