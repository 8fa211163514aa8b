{#- Replaces dbt's is_incremental(). It is false in the SQL of a model whose strategy follows change feeds, because that
    is the SQL of the whole table in every run. A filter only in later runs would change the model, and those rows would
    become the table. Hooks get dbt's result. A model that calls `dbt.is_incremental()` also gets this one, because dbt
    uses that name for an adapter's macros too.
    dbt asks for every Python model, also if it does not call it. -#}
{% macro is_incremental() %}
    {%- if not execute or model is not defined -%}
        {{ return(false) }}
    {%- elif model.config and not model.compiled and adapter.analysis.strategy_of(model.config) -%}
        {%- if model.language != 'python' or 'is_incremental' in model.raw_code -%}
            {%- do exceptions.warn(model.name ~ ' (' ~ model.original_file_path ~ ') calls is_incremental(), which is false in every run: '
                ~ model.config.get('incremental_strategy')
                ~ ' applies what changed to the SQL of the whole table. Remove the condition and what depends on it.') -%}
        {%- endif -%}
        {{ return(false) }}
    {%- endif -%}
    {%- if not model.config or model.config.materialized != 'incremental' or should_full_refresh() -%}
        {#- Decided without Spark: `headwaters lineage` compiles this way. -#}
        {{ return(false) }}
    {%- endif -%}
    {%- set relation = adapter.get_relation(this.database, this.schema, this.table) -%}
    {{ return(relation is not none and relation.type == 'table') }}
{% endmacro %}
