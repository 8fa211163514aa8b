{#- The stored form of partition values: Delta writes them as text, and an empty text is NULL. Every comparison of the
    model's rows with the table's needs this form, or it would not find them. -#}

{#- Returns the SQL with its partition columns in their stored form. It refuses a value that a full refresh would read
    back as another one. -#}
{% macro hw_as_stored(sql, settings) %}
    {%- set columns = [] -%}
    {%- for column in hw_as_list(settings.get('partition_by')) -%}
        {%- set name = hw_quote(column) -%}
        {%- do columns.append(name ~ ' = if(' ~ hw_is_kept(name) ~ ', ' ~ hw_as_stored_value(name) ~ ', raise_error('
            ~ hw_literal(column ~ ' has a value that Delta cannot keep in a partition column: bytes that are no UTF-8, '
            ~ "or a moment in the hour that the session's time zone has twice. Partition by another column, such as hex(" ~ column
            ~ ') or a date, or use cluster_by.') ~ '))') -%}
    {%- endfor -%}
    {{ return('select * from (\n' ~ sql ~ '\n) |> set ' ~ columns | join(', ') if columns else sql) }}
{% endmacro %}


{#- Returns true if a partition's text, in the session's time zone, is parsed to the same value. -#}
{% macro hw_is_kept(value) %}
    {%- set text = 'cast(' ~ value ~ ' as string)' -%}
    {{ return('coalesce(is_valid_utf8(' ~ text ~ '), true) and (typeof(' ~ value ~ ") <> 'timestamp' or " ~ hw_moment_as_text(value)
        ~ ' <=> ' ~ hw_moment_as_text('try_cast(' ~ text ~ ' as timestamp)') ~ ')') }}
{% endmacro %}


{#- Returns the stored form of one value. -#}
{% macro hw_as_stored_value(value) %}
    {{ return('if(cast(' ~ value ~ " as string) in ('', '__HIVE_DEFAULT_PARTITION__'), null, " ~ value ~ ')') }}
{% endmacro %}
