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


{#- A bigint that is the same for equal keys. A hash does not see a null, so whether there is one is part of it. -#}
{% macro hw_hash_of_keys(keys, alias='') %}
    {%- set values = [] -%}
    {%- for key in hw_quoted(keys, alias) -%}{%- do values.extend([key, key ~ ' is null'] if keys | length > 1 else [key]) -%}{%- endfor -%}
    {{ return('xxhash64(' ~ values | join(', ') ~ ')') }}
{% endmacro %}
