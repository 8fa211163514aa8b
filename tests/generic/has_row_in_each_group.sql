{#- Returns every group of rows, those with the same values of `group_by`, in which no row meets `condition`. -#}
{% test has_row_in_each_group(model, group_by, condition) %}
    {%- set names = [] -%}
    {%- for column in ([group_by] if group_by is string else group_by) -%}
        {%- do names.append(adapter.quote(column)) -%}
    {%- endfor -%}
select
    {{ names | join(',\n    ') }},
    count(*) as row_count
from {{ model }}
group by
    {{ names | join(',\n    ') }}
having count_if({{ hw_ended(condition) }}) = 0
{% endtest %}
