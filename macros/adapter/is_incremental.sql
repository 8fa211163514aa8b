{#- dbt's is_incremental(), which is false in the SQL of a model whose strategy follows change feeds: there the SQL is
    that of the whole table in every run. A filter that only later runs have would make another model of it, and its rows
    the table. Hooks get dbt's answer. -#}
{% macro is_incremental() %}
    {%- if execute and model is defined and model.config and not model.compiled
        and adapter.strategy_of(model.config) -%}
        {%- do exceptions.warn(model.name ~ ' (' ~ model.original_file_path ~ ') calls is_incremental(), which is false in every run: '
            ~ model.config.get('incremental_strategy')
            ~ ' applies what changed to the SQL of the whole table. Remove the condition and what depends on it.') -%}
        {{ return(false) }}
    {%- elif execute and model is not defined -%}
        {{ return(false) }}
    {%- endif -%}
    {{ return(dbt.is_incremental()) }}
{% endmacro %}
