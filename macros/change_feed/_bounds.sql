{#- Where in a table the changed rows can be, as literals that Delta's file statistics and Parquet's row groups understand. -#}

{#- The question: for each of `columns` of `sql` its least and greatest value, its type, whether it is null somewhere, and its values
    where `list_values` says that they are few. -#}
{% macro _bounds_expressions(columns, list_values=false) %}
    {%- set expressions = [] -%}
    {%- for column in columns -%}
        {%- set name = adapter.quote(column) -%}
        {%- do expressions.append('cast(min(' ~ name ~ ') as string) as least_' ~ loop.index) -%}
        {%- do expressions.append('cast(max(' ~ name ~ ') as string) as greatest_' ~ loop.index) -%}
        {%- do expressions.append('count_if(' ~ name ~ ' is null) as nulls_' ~ loop.index) -%}
        {%- do expressions.append('typeof(any_value(' ~ name ~ ')) as type_' ~ loop.index) -%}
        {%- if list_values -%}
            {%- do expressions.append('to_json(collect_set(cast(' ~ name ~ ' as string))) as values_' ~ loop.index) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(expressions) }}
{% endmacro %}


{#- The answer: a list of column, type, least, greatest, nulls, values. -#}
{% macro _bounds_of(row, columns, list_values=false) %}
    {%- set bounds = [] -%}
    {%- for column in columns -%}
        {%- set type = row['type_' ~ loop.index] -%}
        {%- set values = fromjson(row['values_' ~ loop.index]) if list_values else [] -%}
        {%- do bounds.append({
            'column': column, 'type': type, 'nulls': row['nulls_' ~ loop.index] | int > 0,
            'least': row['least_' ~ loop.index], 'greatest': row['greatest_' ~ loop.index],
            'values': values if 0 < values | length <= 2000 and type not in ['binary', 'double', 'float'] else [],
        }) -%}
    {%- endfor -%}
    {{ return(bounds) }}
{% endmacro %}


{#- The bounds as a condition on a table's columns: `names` maps a bound's column to the table's, `alias` is the table's, if it has one. -#}
{% macro _within_bounds(bounds, alias=none, names=none) %}
    {%- set conditions = [] -%}
    {%- for bound in bounds if bound.type.split('(')[0] in ['tinyint', 'smallint', 'int', 'bigint', 'decimal', 'string', 'date', 'timestamp', 'timestamp_ntz'] -%}
        {%- set column = (alias ~ '.' if alias else '') ~ adapter.quote((names or {}).get(bound.column, bound.column)) -%}
        {%- set within = [] -%}
        {%- if bound.least is not none -%}
            {%- do within.append(column ~ ' between ' ~ _literal(bound.least, bound.type) ~ ' and ' ~ _literal(bound.greatest, bound.type)) -%}
        {%- endif -%}
        {%- if bound['values'] -%}
            {%- set literals = [] -%}
            {%- for value in bound['values'] -%}{%- do literals.append(_literal(value, bound.type)) -%}{%- endfor -%}
            {%- do within.append(column ~ ' in (' ~ literals | join(', ') ~ ')') -%}
        {%- endif -%}
        {%- set found = within | join(' and ') -%}
        {%- if bound.nulls -%}
            {%- do conditions.append('(' ~ ((found ~ ' or ') if found else '') ~ column ~ ' is null)') -%}
        {%- elif found -%}
            {%- do conditions.append(found) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(conditions | join(' and ') or 'true') }}
{% endmacro %}


{% macro _literal(text, type) %}
    {{ return(text if type in ['int', 'smallint', 'tinyint'] else (text ~ 'L') if type == 'bigint' else string_literal(text) if type == 'string'
        else 'cast(' ~ string_literal(text) ~ ' as ' ~ type ~ ')') }}
{% endmacro %}
