{% macro affected(relation, key, via=none, on=none) %}
    {%- set key = hw_as_list(key) if key is not mapping else key -%}
    {%- if not key -%}
        {{ hw_raise('ARGUMENT', "affected() needs key=: the columns of " ~ relation ~ " that say which rows of the "
            ~ "model a change touches") }}
    {%- endif -%}
    {%- if (via is none) != (on is none) -%}
        {{ hw_raise('ARGUMENT', "affected(" ~ relation ~ ") got one of via= and on=: an input that lacks the key "
            ~ "needs both, the relation that has it and the columns they share") }}
    {%- endif -%}
    {%- set options = {'key': key if key is mapping else dict(zip(key, key))} -%}
    {%- if via is not none -%}
        {%- set on = hw_as_list(on) if on is not mapping else on -%}
        {%- do options.update({'via': via | string, 'on': on if on is mapping else dict(zip(on, on))}) -%}
    {%- endif -%}
    {{ return(hw_input('affected', relation, options)) }}
{% endmacro %}
