{#- Builds an expression of the type of a query's rows that reads no rows: with `limit 0`, Spark removes the query before Delta looks for
    its files. -#}
{% macro hw_type_of(query) %}
    {{ return('typeof((select struct(*) from (\n' ~ query ~ '\n) limit 0))') }}
{% endmacro %}


{#- `12.3 MB` -#}
{% macro hw_size(bytes) %}
    {%- for unit, of in {'GB': 1073741824, 'MB': 1048576, 'kB': 1024}.items() if bytes >= of -%}
        {{ return('%.1f %s' | format(bytes / of, unit)) }}
    {%- endfor -%}
    {{ return((bytes | int) ~ ' B') }}
{% endmacro %}


{#- Formats milliseconds since 1970 as a time. -#}
{% macro hw_utc(milliseconds) %}
    {{ return(modules.datetime.datetime.fromtimestamp(milliseconds / 1000, modules.pytz.utc).strftime('%Y-%m-%d %H:%M UTC')) }}
{% endmacro %}
