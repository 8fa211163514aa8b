{#- The rows that only the table has (`_side` table) and those that only a full refresh has. -#}
{% macro hw_differences_from_full_refresh_sql(relation, sample_keys) -%}
    {%- set node = hw_model_of(relation) -%}
    {%- set settings = node.config -%}
    {%- set state = hw_applied_state(relation) -%}
    {%- if state.sql is none or state.inputs is none -%}
        {{ hw_raise('NO_MODEL_OF_TABLE', relation ~ ' was not built by a strategy that follows change feeds: '
            ~ 'equals_full_refresh has nothing to compare it with') }}
    {%- endif -%}
    {%- set sql = hw_at_versions(state.sql, state.inputs) -%}
    {%- set columns = adapter.get_columns_in_relation(relation) -%}
    {%- set full_refresh = hw_full_refresh_sql(adapter.strategy_of(settings), sql, settings, columns) -%}
    {%- set names = columns | map(attribute='quoted') | join(', ') -%}
    {%- set key = 'xxhash64(' ~ (hw_quoted(settings.unique_key) | join(', ') if settings.unique_key else names) ~ ')' -%}
    {%- set sample = '' -%}
    {%- if sample_keys is not none -%}
        {%- set rows = run_query('select count(*) from ' ~ relation).rows[0][0] | int -%}
        {%- set sample = ' where pmod(' ~ key ~ ', ' ~ ([rows // sample_keys, 1] | max) ~ ') = 0' -%}
    {%- endif -%}
    {#- each side is computed once: `except all` both ways would do it twice. No HAVING: see hw_counted_change_set_sql -#}
select _side, {{ names }} from (
select {{ names }}, sum(_balance) as _balance from (
select 1 as _balance, {{ names }} from {{ relation }}{{ sample }}
union all
select -1 as _balance, {{ names }} from (
{{ full_refresh }}
){{ sample }}
)
group by {{ names }}
) lateral view explode(if(_balance = 0, array(), array(if(_balance > 0, 'table', 'full refresh')))) _sides as _side
{%- endmacro %}


{% macro hw_model_of(relation) %}
    {%- for node in graph.nodes.values() if node.resource_type == 'model' and node.schema == relation.schema
        and node.alias == relation.identifier -%}
        {{ return(node) }}
    {%- endfor -%}
    {{ hw_raise('NO_MODEL_OF_TABLE', relation ~ ' is not a model of this project') }}
{% endmacro %}
