{#- What a table has of a value that it is partitioned by: Delta writes such values as text, where an empty one is NULL.
    Whatever compares the model's rows with the table's has to see them as the table has them, or it would not find them. -#}

{#- The SQL with its partition columns as they are stored. A value that a full refresh would read back as another one is refused. -#}
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


{#- Whether a partition's text, in the session's time zone, leads back to its value. -#}
{% macro hw_is_kept(value) %}
    {%- set text = 'cast(' ~ value ~ ' as string)' -%}
    {{ return('coalesce(is_valid_utf8(' ~ text ~ '), true) and (typeof(' ~ value ~ ") <> 'timestamp' or " ~ hw_moment_as_text(value)
        ~ ' <=> ' ~ hw_moment_as_text('try_cast(' ~ text ~ ' as timestamp)') ~ ')') }}
{% endmacro %}


{#- One value. -#}
{% macro hw_as_stored_value(value) %}
    {{ return('if(cast(' ~ value ~ " as string) in ('', '__HIVE_DEFAULT_PARTITION__'), null, " ~ value ~ ')') }}
{% endmacro %}
