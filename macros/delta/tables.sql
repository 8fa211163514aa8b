{% macro hw_tables_in(schema) %}
    {{ return(run_query('show tables in ' ~ hw_quote(schema)).columns['tableName'].values() | list) }}
{% endmacro %}


{#- Returns the columns of a table with their types, in order. -#}
{% macro hw_columns_of_table(relation) %}
    {%- set held = {} -%}
    {%- for row in run_query('describe table ' ~ relation).rows if row['col_name'] and not row['col_name'].startswith('#')
        and row['col_name'] not in held and row['data_type'] -%}
        {%- do held.update({row['col_name']: row['data_type']}) -%}
    {%- endfor -%}
    {{ return(held) }}
{% endmacro %}


{#- Returns the constraints of a table, as properties of the table that replaces it in the same commit: its checks, also those of other
    writers, and NOT NULL as checks. -#}
{% macro hw_constraints_kept(relation, detail) %}
    {%- set checks = {} -%}
    {%- for name, expression in adapter.commits.as_mapping(detail['properties']).items() if name.startswith('delta.constraints.') -%}
        {%- do checks.update({name: expression}) -%}
    {%- endfor -%}
    {%- for field in hw_table_state('', relation).fields if not field.nullable -%}
        {%- set check = adapter.drift.not_null_check(field.name) -%}
        {%- do checks.update({'delta.constraints.' ~ check[0]: check[1]}) -%}
    {%- endfor -%}
    {{ return(checks) }}
{% endmacro %}


{#- Replaces a table's rows by those of another one, or of itself, under the declared partitioning and clustering. `checks`: of
    hw_constraints_kept. -#}
{% macro hw_replace_table_sql(relation, declared, comment, properties, rows_of, checks) -%}
    create or replace table {{ relation }} using delta
    {{- hw_layout_sql(declared.partition_by, declared.cluster_by) }}
    {%- if comment %} comment {{ hw_literal(comment) }}{% endif %}
    tblproperties ({{ hw_assignments(dict(properties, **checks)) }})
    as select * from {{ rows_of }}
{%- endmacro %}


{#- Returns the layout of a table's files as clauses of CREATE TABLE. -#}
{% macro hw_layout_sql(partition_by, cluster_by) -%}
    {%- if partition_by %} partitioned by ({{ hw_quoted(partition_by) | join(', ') }}){% endif -%}
    {%- if cluster_by %} cluster by ({{ hw_quoted(cluster_by) | join(', ') }}){% endif -%}
{%- endmacro %}
