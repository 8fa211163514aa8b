{% macro hw_as_list(value) %}
    {{ return([] if value is none else [value] if value is string else value | list) }}
{% endmacro %}


{#- Reads a list of names from Spark's answer: a list, an array, or their text. -#}
{% macro hw_as_names(value) %}
    {{ return(adapter.commits.as_names(value) | list) }}
{% endmacro %}


{% macro hw_assignments(properties) %}
    {%- set assignments = [] -%}
    {%- for name, value in properties.items() -%}
        {%- do assignments.append(hw_literal(name) ~ ' = ' ~ hw_literal(value)) -%}
    {%- endfor -%}
    {{ return(assignments | join(', ')) }}
{% endmacro %}
