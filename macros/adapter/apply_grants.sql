{#- Replaces dbt's apply_grants(), which fails after the table is written if the catalog has no grants. -#}
{% macro headwaters__apply_grants(relation, grant_config, should_revoke=true) %}
    {%- set warning = adapter.lacking_grants(get_show_grant_sql(relation)) if grant_config else '' -%}
    {%- if warning is none -%}
        {{ return(dbt.default__apply_grants(relation, grant_config, should_revoke)) }}
    {%- elif warning -%}
        {%- do exceptions.warn(warning) -%}
    {%- endif -%}
{% endmacro %}
