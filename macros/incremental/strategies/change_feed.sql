{#- Rows that appeared and rows that disappeared, by key: what only appeared is inserted, what only disappeared is deleted, what did
    both is updated unless it is the same row. -#}
{% macro hw_feed_change_set_sql(appeared, disappeared, settings) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {{ return(
        'with _appeared as (select struct(*) as _row, ' ~ hw_quoted(keys) | join(', ') ~ ' from (\n' ~ appeared ~ '\n)),\n'
        ~ '_disappeared as (select struct(*) as _row, ' ~ hw_quoted(keys) | join(', ') ~ ' from (\n' ~ disappeared ~ '\n))\n'
        ~ hw_classified_sql('_appeared', '_disappeared', keys, settings)
    ) }}
{% endmacro %}
