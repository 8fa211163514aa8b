{#- A text as a literal of Spark SQL: `hw_literal("it's")` → 'it\'s'. Besides the quote, Spark reads escapes after a
    backslash, and before it parses a statement it replaces ${names} in it, those inside literals too. -#}
{% macro hw_literal(text) %}
    {{- return(
        "'"
        ~ (text | string | replace("\\", "\\\\") | replace("'", "\\'") | replace("${", "\\u0024{"))
        ~ "'"
    ) -}}
{% endmacro %}
