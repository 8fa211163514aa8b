{#- Each row of the followed input makes its own rows of the model: the model's SQL over the rows that were inserted and
    over those that were deleted is what the table gains and loses. -#}
{% macro hw_change_feed__change_set_sql(target, sql, plan, settings, columns, bounds) %}
    {%- set spec = hw_followed_input(plan.inputs) -%}
    {%- set range = plan.ranges[spec.source] -%}
    {%- set inserted = hw_with_inputs(sql, {spec.text: hw_net_rows(range, spec.source, 1)}) -%}
    {%- if range.inserts_only -%}
        {{ return(hw_inserted_rows_sql(inserted, hw_beside_sql(settings))) }}
    {%- endif -%}
    {%- set deleted = hw_with_inputs(sql, {spec.text: hw_net_rows(range, spec.source, -1)}) -%}
    {%- if not hw_has_key(settings) -%}
        {{ return(hw_difference_without_key_sql(target, inserted, deleted, columns)) }}
    {%- endif -%}
    {{ return(hw_difference_sql(inserted, deleted, settings)) }}
{% endmacro %}


{% macro hw_inserted_rows_sql(inserted, before) -%}
select *{{ before }}, 'insert' as _operation from (
{{ inserted }}
)
{%- endmacro %}


{#- Inserted and deleted rows, by key: a key that only the first have is inserted, one that only the second have is
    deleted, one of both is updated, unless its row is the same. -#}
{% macro hw_difference_sql(inserted, deleted, settings) -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set key_columns = hw_quoted(keys) | join(', ') -%}
with _appeared as (select struct(*) as _row, {{ key_columns }} from (
{{ inserted }}
)),
_disappeared as (select struct(*) as _row, {{ key_columns }} from (
{{ deleted }}
))
{{ hw_classified_sql('_appeared', '_disappeared', keys, settings) }}
{%- endmacro %}


{% macro hw_change_feed__share_changed(relation, sql, plan, settings) %}
    {%- set share = hw_default__share_changed(relation, sql, plan, settings) -%}
    {{ return(dict(share, above=adapter.most_of_rows(hw_way_of_plan(plan)))) }}
{% endmacro %}


{% macro hw_change_feed__facts_before_staging(target, sql, plan, settings) %}
    {%- set stored = hw_store_feed(target, plan) -%}
    {{ return(dict(hw_default__facts_before_staging(target, sql, plan, settings), gap=stored.gap)) }}
{% endmacro %}


{% macro hw_change_feed__tried_rows(inputs, settings) %}
    {%- set spec = hw_followed_input(inputs) -%}
    {%- if settings.get('allow_nondeterministic') or spec.version is none -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({'spec': spec, 'half': 'monotonically_increasing_id()'}) }}
{% endmacro %}


{% macro hw_change_feed__difference_text(target, spec, name) %}
    {{ return(
        target ~ ' gives other rows for ' ~ spec.source ~ ' as a whole than for one half of its rows and the other: a row of '
            ~ 'its result depends on more than one row '
        ~ 'of the input, or on none, as in an outer join that keeps all rows of a lookup. Use affected_keys, which recomputes whole keys.'
    ) }}
{% endmacro %}
