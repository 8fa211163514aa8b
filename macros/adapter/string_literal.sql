{#- A Spark SQL string literal of any text: `string_literal("it's")` → 'it\'s'. -#}
{% macro string_literal(text) %}
    {{- return("'" ~ (text | string | replace("\\", "\\\\") | replace("'", "\\'")) ~ "'") -}}
{% endmacro %}
