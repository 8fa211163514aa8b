{#- Sums and counts by key: scripts/headwaters/runs/strategies/signed_sum.py. -#}
{% macro hw_sums_sql(rows, keys, measures) -%}
select {{ keys }}
    {%- for measure in measures -%}
, {{ measure }}
    {%- endfor %} from (
{{ rows }}
)
{%- endmacro %}


{#- Adds the sums of the changes to those of the groups in `held`: the table, or its rows of these groups. `rows` is a
    group's new number of rows, `moved` is true if one of its sums changes, and `lasting` has the groups without
    rows. -#}
{% macro hw_added_sums_sql(held, keys, delta, sums, moved, rows, lasting, beside) -%}
    {%- set operation = "if(_target._here is null, 'insert', if(" ~ rows ~ " = 0 and _lasting._stays is null, 'delete', 'update'))" -%}
select {{ (hw_quoted(keys, '_delta') + sums) | join(', ') }}{{ beside }}, {{ operation }} as _operation
from (
{{ delta }}
) as _delta left join (select *, true as _here from {{ held }}) as _target on {{ hw_equals(keys, '_delta', '_target') }}
left join {{ lasting }} as _lasting on {{ hw_equals(keys, '_delta', '_lasting') }}
where {{ moved | join(' or ') }}
{%- endmacro %}


{% macro hw_with_columns_sql(rows, columns) -%}
select *
    {%- for column in columns -%}
, {{ column }}
    {%- endfor %} from (
{{ rows }}
)
{%- endmacro %}


{#- Sums again over groups that are one key in the table, such as the empty text's and NULL's: they change one row. -#}
{% macro hw_summed_again_sql(rows, keys, sums) -%}
select {{ keys }}
    {%- for sum in sums -%}
, {{ sum }}
    {%- endfor %} from (
{{ rows }}
) group by {{ keys }}
{%- endmacro %}


{#- Selects the keys of the groups that a model gives over inputs without rows, as a subquery with the column `_stays`.
    Spark detects that it reads no rows. -#}
{% macro hw_lasting_groups_sql(rows, keys) -%}
(select {{ keys }}, true as _stays from (
{{ rows }}
))
{%- endmacro %}


{#- Counts, for each measure, the groups whose value is not a weighted sum. `_empty` counts the groups without a
    row, except those that always exist. `once` and `thrice` are the SQL with the weights 1 and -3 for every row. -#}
{% macro hw_differences_of_sums_sql(once, thrice, lasting, weight, names, keys) -%}
select
    {%- for name in hw_quoted(names) %}
count_if(coalesce(_thrice.{{ name }}, 0) <> -3 * coalesce(_once.{{ name }}, 0)) as {{ name }},
    {%- endfor %}
count_if(_once._here and _lasting._stays is null and coalesce({{ weight }}, 0) = 0)
+ (select count(*) from {{ lasting }} as _lasting left anti join {{ once }} as _once
on {{ hw_equals(keys, '_lasting', '_once') }}) as _empty
from {{ once }} as _once full outer join {{ thrice }} as _thrice on {{ hw_equals(keys, '_once', '_thrice') }}
left join {{ lasting }} as _lasting on {{ hw_equals(keys, '_once', '_lasting') }}
{%- endmacro %}


{% macro hw_repeated_nulls_sql(rows, keys, nulls) -%}
select {{ keys }} from (
{{ rows }}
) where {{ nulls | join(' or ') }} group by {{ keys }} having count(*) > 1
{%- endmacro %}
