{#- Values of table properties, compared by what they mean: '1 day' is 'interval 24 hours', 'TRUE' is 'true'. -#}
{% macro hw_same_value(name, one, other) %}
    {%- set kind = hw_known_properties().get(name, 'text') -%}
    {%- set normal = hw_normal_value(kind, one) -%}
    {{ return(one | string == other | string or (normal is not none and normal == hw_normal_value(kind, other))) }}
{% endmacro %}


{#- The value in its one form; none where it is no value of the kind. -#}
{% macro hw_normal_value(kind, value) %}
    {%- set text = value | string | trim -%}
    {%- if kind == 'boolean' -%}
        {{ return(text | lower if text | lower in ['true', 'false'] else none) }}
    {%- elif kind == 'integer' -%}
        {{ return(text | int if modules.re.fullmatch('-?\\d+', text) else none) }}
    {%- elif kind == 'interval' -%}
        {{ return(hw_milliseconds_of(text)) }}
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
