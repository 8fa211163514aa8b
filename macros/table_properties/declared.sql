{#- Returns the nodes of the project that are tables, by name of the table: models, seeds and sources with a stream or declared properties.
    `select`: names of tables (`gold.sessions`), of nodes (`sessions`) or of schemas (`gold`). Without it, returns all but the tables of the
    schema `ops`: each operation writes to them, so a second `maintain` would always have work. -#}
{% macro hw_table_nodes(select=none) %}
    {%- set wanted = [] -%}
    {%- for item in hw_as_list(select) -%}{%- do wanted.extend(item.split()) -%}{%- endfor -%}
    {%- set found = {} -%}
    {%- set known = [] -%}
    {%- set hit = [] -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list -%}
        {%- set kind = node.resource_type -%}
        {%- set is_table = kind in ['model', 'seed'] and node.config.materialized in ['table', 'incremental', 'seed'] -%}
        {%- if kind == 'source' or is_table -%}
            {%- set identifier = node.identifier or node.alias -%}
            {%- set name = node.schema ~ '.' ~ identifier -%}
            {%- set names = hw_names_of(node) + [node.schema, hw_layer_of(node)] -%}
            {%- do known.extend(hw_names_of(node)) -%}
            {%- for item in wanted if item in names -%}{%- do hit.append(item) -%}{%- endfor -%}
            {%- set ours = node.package_name == 'dbt_headwaters' -%}
            {%- if (not wanted and not ours) or names | select('in', wanted) | list -%}
                {%- do found.update({name: node}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for item in wanted if item not in hit -%}
        {%- set hint = adapter.names.or_nearest(item, known) -%}
        {{ hw_raise('NO_SUCH_TABLE', "select: there is no table, model, source or schema '" ~ item ~ "'" ~ hint) }}
    {%- endfor -%}
    {%- set sorted = {} -%}
    {%- for name in found | sort -%}{%- do sorted.update({name: found[name]}) -%}{%- endfor -%}
    {{ return(sorted) }}
{% endmacro %}


{#- Returns the names that a user may give for a table: its own, in the schemas of any target, and the name of its model or source. Tables
    of the schema `ops` have only the former, since a project may have a model `operations`. -#}
{% macro hw_names_of(node) %}
    {%- set identifier = node.identifier or node.alias -%}
    {%- set names = [hw_layer_of(node) ~ '.' ~ identifier, node.schema ~ '.' ~ identifier] -%}
    {{ return(names if node.package_name == 'dbt_headwaters' else names + [node.name]) }}
{% endmacro %}


{% macro hw_layer_of(node) %}
    {{ return(node.source_name if node.resource_type == 'source' else node.config.get('schema') or node.schema) }}
{% endmacro %}
