{#- Ends with an error of a stable code, which docs/errors.md explains. -#}
{% macro hw_raise(code, text) %}
    {{ exceptions.raise_compiler_error('[HW_' ~ code ~ '] ' ~ text) }}
{% endmacro %}


{#- The same for several problems, of which each has its code: `Problem`s of scripts/headwaters/tables. -#}
{% macro hw_raise_problems(problems) %}
    {{ exceptions.raise_compiler_error(problems | join('\n')) }}
{% endmacro %}
