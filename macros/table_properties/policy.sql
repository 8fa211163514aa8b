{#- When maintenance pays, from `+maintenance` of a layer and `maintenance` of a model; both add up. docs/tables.md says what each means. -#}
{% macro hw_policy(config) %}
    {%- set defaults = {
        'enabled': true, 'small_file': '16 MB', 'compact_above': 16, 'target_file': '256 MB', 'where': none, 'zorder_by': [], 'purge_above': 0.2, 'vacuum': true,
    } -%}
    {%- set given = dict(config.get('maintenance') or {}, **((config.get('meta') or {}).get('maintenance') or {})) -%}
    {{ return(dict(defaults, **given)) }}
{% endmacro %}


{#- Refuses a policy that cannot be; called while the project is parsed. -#}
{% macro hw_check_policy(where, config) %}
    {%- set allowed = ['enabled', 'small_file', 'compact_above', 'target_file', 'where', 'zorder_by', 'purge_above', 'vacuum'] -%}
    {%- set policy = hw_policy(config) -%}
    {%- for key, value in policy.items() -%}
        {%- if key not in allowed -%}
            {%- set near = hw_nearest(key, allowed) -%}
            {{ exceptions.raise_compiler_error(where ~ ": maintenance: '" ~ key ~ "' is not a key here" ~ (", did you mean '" ~ near ~ "'?" if near else '') ~ ' (allowed: ' ~ allowed | join(', ') ~ ')') }}
        {%- elif key in ['small_file', 'target_file'] and hw_bytes_of(value) is none -%}
            {{ exceptions.raise_compiler_error(where ~ ': maintenance: ' ~ key ~ " is '" ~ value ~ "', it must be a size such as 16 MB.") }}
        {%- elif key in ['enabled', 'vacuum'] and value is not boolean -%}
            {{ exceptions.raise_compiler_error(where ~ ': maintenance: ' ~ key ~ " is '" ~ value ~ "', it must be true or false.") }}
        {%- elif key == 'compact_above' and (value is not integer or value < 1) or key == 'purge_above' and (value is not number or not 0 < value <= 1) -%}
            {{ exceptions.raise_compiler_error(where ~ ': maintenance: ' ~ key ~ " is '" ~ value ~ "', it must be " ~ ('a number of files.' if key == 'compact_above' else 'a share of rows, 0.2 for 20 %.')) }}
        {%- endif -%}
    {%- endfor -%}
    {%- if policy.zorder_by and hw_setting(config, 'cluster_by') -%}
        {{ exceptions.raise_compiler_error(where ~ ': maintenance: zorder_by beside cluster_by: a clustered table has its order already; leave zorder_by out.') }}
    {%- endif -%}
{% endmacro %}
