{#- Selects the rows that only the table has (`_side` table) and those that only a full refresh has. It computes each
    side once; `except all` in both directions would do so twice. No HAVING: see hw_counted_change_set_sql. -#}
{% macro hw_differences_from_full_refresh_sql(relation, full_refresh, names, sample, ties) -%}
select _side, {{ names }}{% if ties %}, {{ hw_literal(ties) }} as _ties{% endif %} from (
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
    {{ hw_raise('HW_NO_MODEL_OF_TABLE', relation ~ ' is not a model of this project') }}
{% endmacro %}
