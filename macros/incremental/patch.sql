{#- A change of SQL that needs no rebuild: scripts/headwaters/runs/patching.py. -#}

{#- The rows of the table that meet the condition `kept`, under other columns: pairs of a name and what it is computed from. -#}
{% macro hw_patched_rows_sql(table, columns, kept) -%}
select
    {%- for name, expression in columns %} {{ expression }} as {{ hw_quote(name) }}{{ ',' if not loop.last }}
    {%- endfor %} from {{ table }}
{%- if kept %} where {{ kept }}{% endif %}
{%- endmacro %}


{#- The rows that the new SQL gives at the applied versions and the old one did not. -#}
{% macro hw_inserted_by_patch_sql(rows, dropped) -%}
select * from (
{{ rows }}
) where ({{ dropped }}) is not true
{%- endmacro %}


{#- DELETE takes no options, so its condition carries the run's name, in a comparison that is always true and that Spark cannot know to
    be. -#}
{% macro hw_delete_unkept_sql(target, name, kept, run) -%}
delete from {{ target }}
where ({{ kept }}) is not true and concat(hex(xxhash64({{ hw_quote(name) }})), {{ hw_literal(run) }}) <> ''
{%- endmacro %}


{#- Of rows that are equal, one is deleted for all. -#}
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
