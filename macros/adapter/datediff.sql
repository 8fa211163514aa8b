{#- Counts the boundaries between two moments, as dbt's macro for other databases does; a week begins on Sunday, as in
    dbt-spark. dbt-spark rounds hours and smaller units up, and its SQL repeats each argument up to twelve times. -#}
{% macro headwaters__datediff(first_date, second_date, datepart) -%}
    {%- set unit = datepart | lower -%}
    {%- set shift = " + interval '1' day" if unit == 'week' -%}
    timestampdiff({{ unit }},
        date_trunc('{{ unit }}', cast({{ first_date }} as timestamp){{ shift }}),
        date_trunc('{{ unit }}', cast({{ second_date }} as timestamp){{ shift }}))
{%- endmacro %}
