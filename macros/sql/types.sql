{% macro hw_is_integer(type) %}
    {{ return(type in ['tinyint', 'smallint', 'int', 'bigint']) }}
{% endmacro %}


{#- The type of a query's rows, as an expression that reads none of them. -#}
{% macro hw_type_of(query) %}
    {{ return('typeof((select struct(*) from (\n' ~ query ~ '\n) limit 1))') }}
{% endmacro %}


{% macro hw_milliseconds(value) %}
    {{ return(adapter.milliseconds(value)) }}
{% endmacro %}


{#- A length of time such as `interval 1 week 2 days` in milliseconds; none for anything else, and for months, whose length differs. -#}
{% macro hw_milliseconds_of(text) %}
    {%- set units = {'week': 604800000, 'day': 86400000, 'hour': 3600000, 'minute': 60000, 'second': 1000, 'millisecond': 1,
        'microsecond': 0.001,
        'h': 3600000, 'm': 60000, 'ms': 1} -%}
    {%- set parts = modules.re.fullmatch('(?i)\\s*(?:interval\\s+)?((?:\\d+(?:\\.\\d+)?\\s*(?:' ~ units | join('|') ~ ')s?\\s*)+)',
        text | string) -%}
    {%- if not parts -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set total = namespace(value=0) -%}
    {%- for part in modules.re.finditer('(?i)(\\d+(?:\\.\\d+)?)\\s*([a-z]+?)s?(?![a-z])', parts.group(1)) -%}
        {%- set total.value = total.value + (part.group(1) | float) * units[part.group(2) | lower] -%}
    {%- endfor -%}
    {{ return(total.value) }}
{% endmacro %}


{% macro hw_bytes_of(text) %}
    {%- set found = modules.re.fullmatch('(?i)\\s*(\\d+(?:\\.\\d+)?)\\s*(b|kb|mb|gb)\\s*', text | string) -%}
    {{ return(((found.group(1) | float) * {'b': 1, 'kb': 1024, 'mb': 1048576, 'gb': 1073741824}[found.group(2) | lower]) | int if found
        else none) }}
{% endmacro %}


{#- `12.3 MB` -#}
{% macro hw_size(bytes) %}
    {%- for unit, of in {'GB': 1073741824, 'MB': 1048576, 'kB': 1024}.items() if bytes >= of -%}
        {{ return('%.1f %s' | format(bytes / of, unit)) }}
    {%- endfor -%}
    {{ return((bytes | int) ~ ' B') }}
{% endmacro %}


{#- Milliseconds since 1970 as a time. -#}
{% macro hw_utc(milliseconds) %}
    {{ return(modules.datetime.datetime.fromtimestamp(milliseconds / 1000, modules.pytz.utc).strftime('%Y-%m-%d %H:%M UTC')) }}
{% endmacro %}


{#- The same, of a moment; of a value of any type where the answer does not matter, since Spark checks types before it chooses. -#}
{% macro hw_moment_as_text(value) %}
    {%- set moment = "'yyyy-MM-dd HH:mm:ss.SSSSSS'" -%}
    {{ return("get_json_object(to_json(named_struct('v', " ~ value ~ "), map('timeZone', 'UTC', 'timestampFormat', " ~ moment
        ~ ", 'timestampNTZFormat', " ~ moment ~ ")), '$.v')") }}
{% endmacro %}
