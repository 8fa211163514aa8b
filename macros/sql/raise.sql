{#- Raises an error with a stable code, which docs/errors.md explains. -#}
{% macro hw_raise(code, text) %}
    {{ exceptions.raise_compiler_error('[HW_' ~ code ~ '] ' ~ text) }}
{% endmacro %}


{#- Raises several problems, each with its code: `Problem`s of scripts/headwaters/tables. -#}
{% macro hw_raise_problems(problems) %}
    {{ exceptions.raise_compiler_error(problems | join('\n')) }}
{% endmacro %}
