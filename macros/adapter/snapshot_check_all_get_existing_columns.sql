{#- Compares names without case, as Spark does. For dbt's macro, a name in other letters is a new column, so each run
    would record all rows again. -#}
{% macro snapshot_check_all_get_existing_columns(node, target_exists, check_cols_config) %}
    {%- set query = adapter.stock.without_end(node['compiled_code']) -%}
    {%- if not check_cols_config -%}
        {{ hw_raise('HW_SETTING', node.name ~ " has no check_cols: write 'all', or a list of columns") }}
    {%- elif check_cols_config != 'all' -%}
        {%- set query = 'select ' ~ hw_as_list(check_cols_config) | join(', ') ~ ' from (\n' ~ query ~ '\n) as subq' -%}
    {%- endif -%}
    {#- Fails for an unknown column, also in the first run. -#}
    {%- set names = get_columns_in_query(query) if target_exists or check_cols_config != 'all' else [] -%}
    {%- if not target_exists -%}{{ return((false, [])) }}{%- endif -%}
    {%- set relation = adapter.get_relation(database=node.database, schema=node.schema, identifier=node.alias) -%}
    {%- set there = adapter.get_columns_in_relation(relation) | map(attribute='name') | map('lower') | list -%}
    {%- set compared, ns = [], namespace(added=false) -%}
    {%- for name in names -%}
        {%- if name | lower in there -%}
            {%- do compared.append(hw_quote(name)) -%}
        {%- else -%}
            {%- set ns.added = true -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return((ns.added, compared)) }}
{% endmacro %}
