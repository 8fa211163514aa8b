{#- Values of table properties, compared by what they mean: '1 day' is 'interval 24 hours', 'TRUE' is 'true'. -#}
{% macro _same_value(name, one, other) %}
    {%- set kind = _known_properties().get(name, 'text') -%}
    {%- set normal = _normal_value(kind, one) -%}
    {{ return(one | string == other | string or (normal is not none and normal == _normal_value(kind, other))) }}
{% endmacro %}


{#- The value in its one form; none where it is no value of the kind. -#}
{% macro _normal_value(kind, value) %}
    {%- set text = value | string | trim -%}
    {%- if kind == 'boolean' -%}
        {{ return(text | lower if text | lower in ['true', 'false'] else none) }}
    {%- elif kind == 'integer' -%}
        {{ return(text | int if modules.re.fullmatch('-?\\d+', text) else none) }}
    {%- elif kind == 'interval' -%}
        {{ return(_milliseconds_of(text)) }}
    {%- elif kind == 'columns' -%}
        {{ return(modules.re.sub('\\s*,\\s*', ',', text) | lower if text else none) }}
    {%- elif kind == 'feature' -%}
        {{ return('supported' if text in ['supported', 'enabled'] else none) }}
    {%- elif kind is sequence and kind is not string -%}
        {%- for allowed in kind if allowed | lower == text | lower -%}
            {{ return(allowed) }}
        {%- endfor -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(text) }}
{% endmacro %}


{#- A length of time such as `interval 1 week 2 days` in milliseconds; none for anything else, and for months, whose length differs. -#}
{% macro _milliseconds_of(text) %}
    {%- set units = {'week': 604800000, 'day': 86400000, 'hour': 3600000, 'minute': 60000, 'second': 1000, 'millisecond': 1, 'microsecond': 0.001,
        'h': 3600000, 'm': 60000, 'ms': 1} -%}
    {%- set parts = modules.re.fullmatch('(?i)\\s*(?:interval\\s+)?((?:\\d+(?:\\.\\d+)?\\s*(?:' ~ units | join('|') ~ ')s?\\s*)+)', text | string) -%}
    {%- if not parts -%}
        {{ return(none) }}
    {%- endif -%}
    {%- set total = namespace(value=0) -%}
    {%- for part in modules.re.finditer('(?i)(\\d+(?:\\.\\d+)?)\\s*([a-z]+?)s?(?![a-z])', parts.group(1)) -%}
        {%- set total.value = total.value + (part.group(1) | float) * units[part.group(2) | lower] -%}
    {%- endfor -%}
    {{ return(total.value) }}
{% endmacro %}
