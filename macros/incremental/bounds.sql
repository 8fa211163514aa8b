{#- Bounds of changed rows, as literals for Delta's file statistics and Parquet's row groups. The rules are in
    scripts/headwaters/runs/bounds.py; these macros return values in a form that passes through Python unchanged. -#}

{#- Returns the query for bounds: for each of `columns` its least and greatest value, its type, and its number of nulls.
    With `list_rows`, which requires few rows, it also lists the rows of these columns. -#}
{% macro hw_bounds_expressions(columns, list_rows=false) -%}
    {%- for column in columns -%}
        {%- set name = hw_quote(column) -%}
{{ hw_harmless('min(' ~ name ~ ')') }} as least_{{ loop.index }},
{{ hw_harmless('max(' ~ name ~ ')') }} as greatest_{{ loop.index }},
{{ hw_is_harmless('max(' ~ name ~ ')') }} as whole_{{ loop.index }},
count_if({{ name }} is null) as nulls_{{ loop.index }},
typeof(any_value({{ name }})) as type_{{ loop.index }}
        {%- if not loop.last %},
{% endif -%}
    {%- endfor -%}
    {%- if list_rows -%},
{{ hw_rows_as_json(columns) }} as listed
    {%- endif -%}
{%- endmacro %}


{#- Casts a value to text. Moments are in UTC, because an hour may occur twice in the session's time zone. -#}
{% macro hw_as_text(value) %}
    {%- set moment = adapter.analysis.moment_as_text(value) -%}
    {{ return("if(typeof(" ~ value ~ ") like 'timestamp%', " ~ moment ~ ', cast(' ~ value ~ ' as string))') }}
{% endmacro %}


{#- Returns the prefix of a value's text that every parser reads literally: at most 100 characters of printable ASCII,
    without the `${` of a variable. Bytes that are not text never leave Spark. -#}
{% macro hw_harmless(value) %}
    {{ return('regexp_extract(left(' ~ hw_as_text(value) ~ ", 100), '^(?:[ -#%-~]|[$](?![{]))*', 0)") }}
{% endmacro %}


{% macro hw_is_harmless(value) %}
    {{ return(hw_harmless(value) ~ ' = ' ~ hw_as_text(value)) }}
{% endmacro %}


{#- Aggregates the values of a column into one JSON array; null if one of them is not harmless. -#}
{% macro hw_values_as_json(value) %}
    {{ return('if(coalesce(bool_and(' ~ hw_is_harmless(value) ~ '), true), to_json(collect_set(' ~ hw_harmless(value) ~ ')), null)') }}
{% endmacro %}


{#- Aggregates the rows of some columns into one JSON array of arrays; the character U+0001 replaces a value that is not
    harmless. -#}
{% macro hw_rows_as_json(columns) %}
    {%- set values = [] -%}
    {%- for name in hw_quoted(columns) -%}
        {%- do values.append('case when ' ~ name ~ ' is null then null when ' ~ hw_is_harmless(name) ~ ' then ' ~ hw_harmless(name)
            ~ ' else char(1) end') -%}
    {%- endfor -%}
    {{ return('to_json(collect_set(array(' ~ values | join(', ') ~ ')))') }}
{% endmacro %}


{#- Selects the bounds of the affected rows: `touched` selects these columns, `more` adds expressions. The texts '9' and
    '10' have another order than the numbers, so it also counts the types of the columns in the target and in
    `others`. -#}
{% macro hw_affected_bounds_sql(target, touched, columns, list_rows, others, more) -%}
    {%- set names = hw_quoted(columns) | join(', ') -%}
select {{ hw_bounds_expressions(columns, list_rows) }},
size(array_distinct(array(
    {%- for rows in ['select ' ~ names ~ ' from ' ~ target] + others %}{{ hw_type_of(rows) }}, {% endfor -%}
typeof(any_value(struct({{ names }})))))) as types
    {%- for expression in more %},
{{ expression }}
    {%- endfor %}
from (
{{ touched }}
)
{%- endmacro %}
