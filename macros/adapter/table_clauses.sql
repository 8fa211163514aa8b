{#- Writes clauses of CREATE TABLE that dbt-spark does not quote: an apostrophe in a description or a property ended the
    literal. -#}
{% macro headwaters__tblproperties_clause() %}
    {%- set checks = adapter.drift.created_checks(model) -%}
    {%- if checks or adapter.properties.declared_properties(model.config) -%}
        tblproperties ({{ hw_assignments(dict(adapter.properties.created_properties(model.config), **checks)) }})
    {%- endif -%}
{% endmacro %}


{#- Does nothing: the statement that creates a table has the declared checks as properties, so its rows meet them.
    dbt-spark adds them afterwards, and only to a new table, so a replaced one loses them. -#}
{% macro headwaters__alter_table_add_constraints(relation, constraints) %}{% endmacro %}


{#- Runs no statement for NOT NULL and checks of a column, which are among these checks. dbt-spark's statement fails, since
    Delta does not add NOT NULL to a column. -#}
{% macro headwaters__alter_column_set_constraints(relation, column_dict) %}
    {%- for name, column in column_dict.items() -%}
        {%- for constraint in column.constraints if constraint.type not in ('not_null', 'check') -%}
            {%- do exceptions.warn('Delta does not enforce the constraint ' ~ constraint.type ~ ' of the column ' ~ name) -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{% macro headwaters__comment_clause() %}
    {%- if config.persist_relation_docs() and model.description -%}
        comment {{ hw_literal(model.description) }}
    {%- endif -%}
{% endmacro %}


{#- Quotes the columns, unlike dbt-spark; those that a project has quoted stay unchanged. -#}
{% macro headwaters__partition_cols(label, required=false) %}
    {%- set columns = [] -%}
    {%- for column in hw_as_list(config.get('partition_by') or none) -%}
        {%- do columns.append(column if column.startswith('`') else hw_quote(column)) -%}
    {%- endfor -%}
    {%- if columns %}
{{ label }} ({{ columns | join(', ') }})
    {%- endif -%}
{% endmacro %}


{#- Writes `cluster_by` as Delta's liquid clustering, and dbt-spark's `clustered_by` with `buckets` for other formats:
    Delta has no buckets. -#}
{% macro headwaters__clustered_cols(label, required=false) %}
    {%- if config.get('cluster_by') %}
cluster by ({{ hw_quoted(config.get('cluster_by')) | join(', ') }})
    {%- elif config.get('clustered_by') and config.get('file_format') not in (none, '', 'delta') %}
{{ label }} ({{ hw_quoted(config.get('clustered_by')) | join(', ') }}) into {{ config.get('buckets') }} buckets
    {%- endif -%}
{% endmacro %}
