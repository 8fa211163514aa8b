{#- The stored form of partition values: Delta writes them as text, and an empty text is NULL. Every comparison of the
    model's rows with the table's needs this form, or it would not find them. -#}

{#- Returns the SQL with its partition columns in their stored form. It refuses a value that a full refresh would read
    back as another one. -#}
{% macro hw_as_stored(sql, settings) %}
    {%- set columns = [] -%}
    {%- for column in hw_as_list(settings.get('partition_by')) -%}
        {%- set name = hw_quote(column) -%}
        {%- do columns.append(name ~ ' = if(' ~ hw_is_kept(name) ~ ', ' ~ hw_as_stored_value(name) ~ ', '
            ~ hw_raised_of_partition(column) ~ ')') -%}
    {%- endfor -%}
    {{ return('select * from (\n' ~ sql ~ '\n) |> set ' ~ columns | join(', ') if columns else sql) }}
{% endmacro %}


{#- Returns the query of a model that dbt's own statement writes, with the same refusal. Types whose every value is kept
    cost nothing: Spark knows the type of a column before it reads rows. -#}
{% macro hw_with_kept_partitions(sql, settings) %}
    {%- set conditions = [] -%}
    {%- for column in hw_as_list(settings.get('partition_by') or none) if settings.get('file_format') == 'delta' -%}
        {%- set name = hw_quote(column.strip('`')) -%}
        {%- do conditions.append('if(typeof(' ~ name ~ ") in ('boolean', 'tinyint', 'smallint', 'int', 'bigint', 'date') or "
            ~ hw_is_kept(name) ~ ' and coalesce(cast(' ~ name ~ " as string) <> '" ~ hw_null_partition() ~ "', true), true, "
            ~ hw_raised_of_partition(column, 'the text ' ~ hw_null_partition() ~ ', ') ~ ')') -%}
    {%- endfor -%}
    {{ return('select * from (\n' ~ adapter.stock.without_end(sql) ~ '\n) where ' ~ conditions | join(' and ') if conditions else sql) }}
{% endmacro %}


{% macro hw_null_partition() %}{{ return('__HIVE_DEFAULT_PARTITION__') }}{% endmacro %}


{% macro hw_raised_of_partition(column, also='') %}
    {%- set what = column ~ ' has a value that Delta cannot keep in a partition column: ' ~ also -%}
    {{ return('raise_error(' ~ hw_literal(what ~ 'bytes that are no '
        ~ "UTF-8, or a moment in the hour that the session's time zone has twice. Partition by another column, such as hex(" ~ column
        ~ ') or a date, or use cluster_by.') ~ ')') }}
{% endmacro %}


{#- Returns true if a partition's text, in the session's time zone, is parsed to the same value. -#}
{% macro hw_is_kept(value) %}
    {%- set text = 'cast(' ~ value ~ ' as string)' -%}
    {{ return('coalesce(is_valid_utf8(' ~ text ~ '), true) and (typeof(' ~ value ~ ") <> 'timestamp' or " ~ hw_moment_as_text(value)
        ~ ' <=> ' ~ hw_moment_as_text('try_cast(' ~ text ~ ' as timestamp)') ~ ')') }}
{% endmacro %}


{#- Returns the stored form of one value. -#}
{% macro hw_as_stored_value(value) %}
    {{ return('if(cast(' ~ value ~ " as string) in ('', '" ~ hw_null_partition() ~ "'), null, " ~ value ~ ')') }}
{% endmacro %}
