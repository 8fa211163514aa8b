{% macro affected(relation, key, via=none, on=none) %}
    {%- set key = _as_list(key) if key is not mapping else key -%}
    {%- if not key -%}
        {{ exceptions.raise_compiler_error("affected() needs key=: the columns of " ~ relation ~ " that say which rows of the model a change touches") }}
    {%- endif -%}
    {%- if (via is none) != (on is none) -%}
        {{ exceptions.raise_compiler_error("affected(" ~ relation ~ ") got one of via= and on=: an input that lacks the key needs both, the relation that has it and the columns they share") }}
    {%- endif -%}
    {%- set options = {'key': key if key is mapping else dict(zip(key, key))} -%}
    {%- if via is not none -%}
        {%- do options.update({'via': via | string, 'on': _as_list(on)}) -%}
    {%- endif -%}
    {{ return(_input('affected', relation, options)) }}
{% endmacro %}


{% macro _as_list(value) %}
    {{ return([] if value is none else [value] if value is string else value | list) }}
{% endmacro %}
