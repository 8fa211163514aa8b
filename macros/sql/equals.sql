{#- Null-safe equality of two row aliases over columns, as SQL: `hw_equals(['a', 'b'], 't', 's')` → t.`a` <=> s.`a` and t.`b` <=> s.`b`.
    The one place that says when two rows are the same; used by merges, comparisons and tests. -#}
{% macro hw_equals(columns, left, right) %}
    {%- if not columns -%}
        {{ hw_raise('ARGUMENT', "hw_equals() got no columns: pass the key or the columns to compare") }}
    {%- endif -%}
    {%- for column in columns -%}
        {{ left }}.{{ hw_quote(column) }} <=> {{ right }}.{{ hw_quote(column) }}
        {%- if not loop.last %} and {% endif -%}
    {%- endfor -%}
{% endmacro %}
