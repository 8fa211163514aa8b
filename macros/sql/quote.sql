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


{#- Returns columns of a setting in the letter case of the model: Delta does not find a clustering column in another case. -#}
{% macro hw_spelled(names, columns) %}
    {%- set spelled = [] -%}
    {%- for name in hw_as_list(names) -%}
        {%- set same = namespace(name=name) -%}
        {%- for column in columns if column.name | lower == name | lower -%}{%- set same.name = column.name -%}{%- endfor -%}
        {%- do spelled.append(same.name) -%}
    {%- endfor -%}
    {{ return(spelled) }}
{% endmacro %}
