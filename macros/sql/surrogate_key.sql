{#- One text key from several columns, as SQL: the MD5 of their values. Every value carries its length, so that neither a
    separator inside a value nor a NULL beside an empty text lets two different rows share a key. Values are taken as
    text: a timestamp's text depends on the session's time zone, which the profiles set to UTC. -#}
{% macro surrogate_key(columns) %}
    {%- if columns is string or columns is not iterable or not columns -%}
        {{ hw_raise('ARGUMENT',
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
