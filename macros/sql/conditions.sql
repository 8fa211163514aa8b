{#- A condition that somebody wrote, beside others: `a or b` in brackets, and a comment at its end takes no more than its own line. -#}
{% macro hw_bracketed(condition) %}
    {{ return('(' ~ hw_ended(condition) ~ ')') }}
{% endmacro %}


{#- The same as an argument of a function, which needs no brackets. -#}
{% macro hw_ended(condition) %}
    {{ return(condition ~ ('\n' if '--' in condition | string else '')) }}
{% endmacro %}


{% macro hw_all_of(conditions) %}
    {%- set bracketed = [] -%}
    {%- for condition in conditions -%}{%- do bracketed.append(hw_bracketed(condition)) -%}{%- endfor -%}
    {{ return(bracketed | join(' and ')) }}
{% endmacro %}


{#- ` and (…)`, or nothing. -#}
{% macro hw_and(condition) %}
    {{ return(' and ' ~ hw_bracketed(condition) if condition else '') }}
{% endmacro %}
