{#- Returns every combination of values of `columns` that more than one row has. NULL is a value, as in the merges of
    this project: two rows whose key is NULL have the same key. -#}
{% test unique_combination(model, columns) %}
    {%- if columns is string or columns is not iterable or columns | length < 2 -%}
        {{ exceptions.raise_compiler_error(
            "unique_combination got columns: " ~ columns ~ " on " ~ model
            ~ ": pass a list of two columns or more, such as [account_id, currency]; for one column use unique"
        ) }}
    {%- endif -%}
    {%- set names = [] -%}
    {%- for column in columns -%}
        {%- do names.append(adapter.quote(column)) -%}
    {%- endfor -%}
select
    {{ names | join(',\n    ') }},
    count(*) as row_count
from {{ model }}
group by
    {{ names | join(',\n    ') }}
having count(*) > 1
{% endtest %}
