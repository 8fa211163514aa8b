{#- Builds one text key from several columns, as SQL: the MD5 of their values. Every value includes its length, so a separator inside a
    value, or a NULL and an empty text, never give two rows the same key. Values are cast to text: the text of a timestamp depends on the
    session's time zone, which the profiles set to UTC. -#}
{% macro surrogate_key(columns) %}
    {%- if columns is string or columns is not iterable or not columns -%}
        {{ hw_raise('HW_ARGUMENT',
            "surrogate_key() got " ~ columns ~ ": pass a list of column names, such as ['event_time', 'user_id']"
        ) }}
    {%- endif -%}
    md5(concat_ws('|',
    {%- for column in columns %}
        {%- set text = "cast(" ~ column ~ " as string)" %}
        coalesce(concat(length({{ text }}), ':', {{ text }}), '-')
        {%- if not loop.last %},{% endif %}
    {%- endfor %}
    ))
{%- endmacro %}
