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


{#- A table's name for a statement, quoted: dbt-spark leaves names as they are, so one with a semicolon in it would end the statement. -#}
{% macro hw_named(relation) %}
    {{ return(hw_quoted_name(relation.schema, relation.identifier)) }}
{% endmacro %}


{#- Columns that a setting names, in the letters that the model has: Delta does not find a column to cluster by in others. -#}
{% macro hw_spelled(names, columns) %}
    {%- set spelled = [] -%}
    {%- for name in hw_as_list(names) -%}
        {%- set same = namespace(name=name) -%}
        {%- for column in columns if column.name | lower == name | lower -%}{%- set same.name = column.name -%}{%- endfor -%}
        {%- do spelled.append(same.name) -%}
    {%- endfor -%}
    {{ return(spelled) }}
{% endmacro %}
