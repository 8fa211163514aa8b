{#- Raises an error with a stable code, which docs/errors.md explains. -#}
{% macro hw_raise(code, text) %}
    {%- do adapter.refusals.refuse('[' ~ code ~ '] ' ~ text) -%}
{% endmacro %}


{#- Raises several problems, each with its code: `Problem`s of scripts/headwaters/tables. -#}
{% macro hw_raise_problems(problems) %}
    {%- do adapter.refusals.refuse(problems | join('\n')) -%}
{% endmacro %}
