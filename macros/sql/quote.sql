{#- adapter.quote does not double a backtick. -#}
{% macro hw_quote(name) %}
    {{ return('`' ~ name | replace('`', '``') ~ '`') }}
{% endmacro %}


{% macro hw_quoted(columns, alias=none) %}
    {%- set quoted = [] -%}
    {%- for column in hw_as_list(columns) -%}
        {%- do quoted.append((alias ~ '.' if alias else '') ~ hw_quote(column)) -%}
    {%- endfor -%}
    {{ return(quoted) }}
{% endmacro %}


{% macro hw_quoted_name(schema, identifier) %}
    {{ return(hw_quote(schema) ~ '.' ~ hw_quote(identifier)) }}
{% endmacro %}


{#- Quotes a table's name: dbt-spark does not quote names, so a semicolon in a name would end the statement. -#}
{% macro hw_named(relation) %}
    {{ return(hw_quoted_name(relation.schema, relation.identifier)) }}
{% endmacro %}
