{#- Patches for changed SQL that needs no rebuild: scripts/headwaters/runs/patching.py. -#}

{#- Selects the rows of the table that meet the condition `kept`, under new columns: pairs of a name and its
    expression. -#}
{% macro hw_patched_rows_sql(table, columns, kept) -%}
select
    {%- for name, expression in columns %} {{ expression }} as {{ hw_quote(name) }}{{ ',' if not loop.last }}
    {%- endfor %} from {{ table }}
{%- if kept %} where {{ kept }}{% endif %}
{%- endmacro %}


{#- Selects the rows that only the new SQL gives at the applied versions. -#}
{% macro hw_inserted_by_patch_sql(rows, dropped) -%}
select * from (
{{ rows }}
) where ({{ dropped }}) is not true
{%- endmacro %}


{#- DELETE takes no options, so its condition has the run's name: a comparison that is always true, which Spark cannot
    know. -#}
{% macro hw_delete_unkept_sql(target, name, kept, run) -%}
delete from {{ target }}
where ({{ kept }}) is not true and concat(hex(xxhash64({{ hw_quote(name) }})), {{ hw_literal(run) }}) <> ''
{%- endmacro %}


{#- One deletion removes all equal rows. -#}
{% macro hw_staged_by_patch_sql(target, inserted, beside, kept) -%}
select *{{ beside }}, 'insert' as _operation from (
{{ inserted }}
)
{%- if kept %}
union all
select *{{ beside }}, 'delete' as _operation from (
select {{ 'distinct ' if not beside }}* from {{ target }} where ({{ kept }}) is not true
)
{%- endif %}
{%- endmacro %}
