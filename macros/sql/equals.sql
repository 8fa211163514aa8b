{#- Compares two row aliases null-safe over columns: `hw_equals(['a', 'b'], 't', 's')` → t.`a` <=> s.`a` and t.`b` <=> s.`b`. Merges,
    comparisons and tests share this definition of equal rows. -#}
{% macro hw_equals(columns, left, right) %}
    {%- if not columns -%}
        {{ hw_raise('HW_ARGUMENT', "hw_equals() got no columns: pass the key or the columns to compare") }}
    {%- endif -%}
    {%- for column in columns -%}
        {{ left }}.{{ hw_quote(column) }} <=> {{ right }}.{{ hw_quote(column) }}
        {%- if not loop.last %} and {% endif -%}
    {%- endfor -%}
{% endmacro %}
