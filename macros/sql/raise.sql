{#- Ends with an error of a stable code, which docs/errors.md explains. -#}
{% macro hw_raise(code, text) %}
    {{ exceptions.raise_compiler_error('[HW_' ~ code ~ '] ' ~ text) }}
{% endmacro %}
