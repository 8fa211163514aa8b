{#- Where in a table the changed rows can be, as literals that Delta's file statistics and Parquet's row groups understand. The rules are in
    scripts/headwaters/runs/bounds.py; these macros ask for what they need, in a form that survives the way through Python. -#}

{#- The question: for each of `columns` of a query its least and greatest value, its type, and whether it is null somewhere; and the rows
    of all of them where `list_rows` says that they are few. -#}
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


{#- A value as text: moments in UTC, whatever the session's time zone, in which an hour may come twice. -#}
{% macro hw_as_text(value) %}
    {{ return("if(typeof(" ~ value ~ ") like 'timestamp%', " ~ hw_moment_as_text(value) ~ ', cast(' ~ value ~ ' as string))') }}
{% endmacro %}


{#- The beginning of a value's text that any parser takes for itself: printable ASCII without the `${` of a variable, 100
    characters at most. Bytes that are no text never leave Spark. -#}
{% macro hw_harmless(value) %}
    {{ return('regexp_extract(left(' ~ hw_as_text(value) ~ ", 100), '^(?:[ -#%-~]|[$](?![{]))*', 0)") }}
{% endmacro %}


{% macro hw_is_harmless(value) %}
    {{ return(hw_harmless(value) ~ ' = ' ~ hw_as_text(value)) }}
{% endmacro %}


{#- The values of a column as one JSON array, an aggregate; null where one of them is not harmless. -#}
{% macro hw_values_as_json(value) %}
    {{ return('if(coalesce(bool_and(' ~ hw_is_harmless(value) ~ '), true), to_json(collect_set(' ~ hw_harmless(value) ~ ')), null)') }}
{% endmacro %}


{#- The rows of some columns as one JSON array of arrays, an aggregate: a value that is not harmless is the character U+0001. -#}
{% macro hw_rows_as_json(columns) %}
    {%- set values = [] -%}
    {%- for name in hw_quoted(columns) -%}
        {%- do values.append('case when ' ~ name ~ ' is null then null when ' ~ hw_is_harmless(name) ~ ' then ' ~ hw_harmless(name)
            ~ ' else char(1) end') -%}
    {%- endfor -%}
    {{ return('to_json(collect_set(array(' ~ values | join(', ') ~ ')))') }}
{% endmacro %}


{#- The query that asks between which values touched rows lie, of which `touched` selects these columns, with `more`
    expressions. '9' and '10' lie otherwise than 9 and 10, so it asks as well whether the columns have the same types in
    the target and in `others`. -#}
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
