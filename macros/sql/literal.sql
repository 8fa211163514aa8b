{#- Quotes a text as a literal of Spark SQL: `hw_literal("it's")` → 'it\'s'. Spark also reads escapes after a backslash, and replaces
    ${names} in a statement before it parses it, even inside literals. -#}
{% macro hw_literal(text) %}
    {{- return("'" ~ hw_escaped(text) ~ "'") -}}
{% endmacro %}


{% macro hw_escaped(text) %}
    {{- return(text | string | replace("\\", "\\\\") | replace("'", "\\'") | replace("${", "\\u0024{")) -}}
{% endmacro %}
