{#- Returns every combination of values of `combination_of_columns` that more than one row has. NULL is a value, as in
    merges: two rows whose key is NULL have the same key. -#}
{% test unique_combination_of_columns(model, combination_of_columns) %}
    {%- set columns = combination_of_columns -%}
    {%- if columns is string or columns is not iterable or columns | length < 2 -%}
        {{ hw_raise(
            'HW_ARGUMENT',
            "unique_combination_of_columns got combination_of_columns: " ~ columns ~ " on " ~ model
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
