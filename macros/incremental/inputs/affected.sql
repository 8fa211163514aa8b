{% macro affected(relation, key, via=none, on=none) %}
    {%- if not key -%}
        {{ hw_raise('HW_ARGUMENT', "affected() needs key=: the columns of " ~ relation ~ " that say which rows of the "
            ~ "model a change touches") }}
    {%- endif -%}
    {%- if (via is none) != (on is none) -%}
        {{ hw_raise('HW_ARGUMENT', "affected(" ~ relation ~ ") got one of via= and on=: an input that lacks the key "
            ~ "needs both, the relation that has it and the columns they share") }}
    {%- endif -%}
    {%- set options = {'key': hw_column_pairs(key)} -%}
    {%- if via is not none -%}
        {%- do options.update({'via': via | string, 'on': hw_column_pairs(on)}) -%}
    {%- endif -%}
    {{ return(hw_input('affected', relation, options)) }}
{% endmacro %}


{#- Maps columns to their names elsewhere; a list maps each column to itself. -#}
{% macro hw_column_pairs(columns) %}
    {{ return(columns if columns is mapping else dict(zip(hw_as_list(columns), hw_as_list(columns)))) }}
{% endmacro %}
