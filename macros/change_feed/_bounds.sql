{#- Where in a table the changed rows can be, as literals that Delta's file statistics and Parquet's row groups understand. The rules are in
    scripts/headwaters/incremental/bounds.py; these macros ask for what they need, in a form that survives the way through Python. -#}

{#- The question: for each of `columns` of a query its least and greatest value, its type, whether it is null somewhere, and its values
    where `list_values` says that they are few. -#}
{% macro _bounds_expressions(columns, list_values=false) %}
    {%- set expressions = [] -%}
    {%- for column in columns -%}
        {%- set name = _quote(column) -%}
        {%- do expressions.append(_harmless('min(' ~ name ~ ')') ~ ' as least_' ~ loop.index) -%}
        {%- do expressions.append(_harmless('max(' ~ name ~ ')') ~ ' as greatest_' ~ loop.index) -%}
        {%- do expressions.append(_is_harmless('max(' ~ name ~ ')') ~ ' as whole_' ~ loop.index) -%}
        {%- do expressions.append('count_if(' ~ name ~ ' is null) as nulls_' ~ loop.index) -%}
        {%- do expressions.append('typeof(any_value(' ~ name ~ ')) as type_' ~ loop.index) -%}
        {%- if list_values -%}
            {%- do expressions.append(_values_as_json(name) ~ ' as values_' ~ loop.index) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(expressions) }}
{% endmacro %}


{#- A value as text: moments in UTC, whatever the session's time zone, in which an hour may come twice. -#}
{% macro _as_text(value) %}
    {{ return("if(typeof(" ~ value ~ ") like 'timestamp%', " ~ _moment_as_text(value) ~ ', cast(' ~ value ~ ' as string))') }}
{% endmacro %}


{#- The same, of a moment; of a value of any type where the answer does not matter, since Spark checks types before it chooses. -#}
{% macro _moment_as_text(value) %}
    {%- set moment = "'yyyy-MM-dd HH:mm:ss.SSSSSS'" -%}
    {{ return("get_json_object(to_json(named_struct('v', " ~ value ~ "), map('timeZone', 'UTC', 'timestampFormat', " ~ moment ~ ", 'timestampNTZFormat', " ~ moment ~ ")), '$.v')") }}
{% endmacro %}


{#- The beginning of a value's text that any parser takes for itself: printable ASCII without the `${` of a variable, 100 characters at most. Bytes that
    are no text never leave Spark. -#}
{% macro _harmless(value) %}
    {{ return('regexp_extract(left(' ~ _as_text(value) ~ ", 100), '^(?:[ -#%-~]|[$](?![{]))*', 0)") }}
{% endmacro %}


{% macro _is_harmless(value) %}
    {{ return(_harmless(value) ~ ' = ' ~ _as_text(value)) }}
{% endmacro %}


{#- The values of a column as one JSON array, an aggregate; null where one of them is not harmless. -#}
{% macro _values_as_json(value) %}
    {{ return('if(coalesce(bool_and(' ~ _is_harmless(value) ~ '), true), to_json(collect_set(' ~ _harmless(value) ~ ')), null)') }}
{% endmacro %}


{#- The answer: a list of `Bound`s. -#}
{% macro _bounds_of(row, columns, list_values=false) %}
    {{ return(adapter.bounds_of(row, columns, list_values)) }}
{% endmacro %}


{#- The bounds as a condition on a table's columns: `names` maps a bound's column to the table's, `alias` is the table's, if it has one.
    `is_parsed_again`: it goes into a REPLACE WHERE. -#}
{% macro _within_bounds(bounds, alias=none, names=none, is_parsed_again=false) %}
    {{ return(adapter.within_bounds(bounds, alias, names, is_parsed_again)) }}
{% endmacro %}
