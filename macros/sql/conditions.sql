{#- Puts a user's condition in brackets, so that `a or b` binds; a newline ends a comment at its end. After
    `from t where` it needs brackets of its own: Spark reads `where (name)` there as an alias with a column. -#}
{% macro hw_bracketed(condition) %}
    {{ return('(' ~ hw_ended(condition) ~ ')') }}
{% endmacro %}


{#- Ends a condition that is an argument of a function, which needs no brackets. -#}
{% macro hw_ended(condition) %}
    {{ return(condition ~ ('\n' if '--' in condition | string else '')) }}
{% endmacro %}


{% macro hw_all_of(conditions) %}
    {%- set bracketed = [] -%}
    {%- for condition in conditions -%}{%- do bracketed.append(hw_bracketed(condition)) -%}{%- endfor -%}
    {{ return(bracketed | join(' and ')) }}
{% endmacro %}


{#- Returns ` and (…)`, or nothing. -#}
{% macro hw_and(condition) %}
    {{ return(' and ' ~ hw_bracketed(condition) if condition else '') }}
{% endmacro %}
