{#- dbt's is_incremental(), which is false in the SQL of a model whose strategy follows change feeds: there the SQL is
    that of the whole table in every run. A filter that only later runs have would make another model of it, and its rows
    the table. Hooks get dbt's answer. A model that writes `dbt.is_incremental()` gets this one as well: dbt knows the
    macros of an adapter by that name too. -#}
{% macro is_incremental() %}
    {%- if not execute or model is not defined -%}
        {{ return(false) }}
    {%- elif model.config and not model.compiled and adapter.strategy_of(model.config) -%}
        {%- do exceptions.warn(model.name ~ ' (' ~ model.original_file_path ~ ') calls is_incremental(), which is false in every run: '
            ~ model.config.get('incremental_strategy')
            ~ ' applies what changed to the SQL of the whole table. Remove the condition and what depends on it.') -%}
        {{ return(false) }}
    {%- endif -%}
    {%- if not model.config or model.config.materialized != 'incremental' or should_full_refresh() -%}
        {#- Known without Spark: `headwaters lineage` compiles in this way. -#}
        {{ return(false) }}
    {%- endif -%}
    {%- set relation = adapter.get_relation(this.database, this.schema, this.table) -%}
    {{ return(relation is not none and relation.type == 'table') }}
{% endmacro %}
