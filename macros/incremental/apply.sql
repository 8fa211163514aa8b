{#- Writes a staged change set to the target, in one commit: scripts/headwaters/runs/writing.py. `run` marks the commits
    of a run; `beside` has the columns of the staging table that are not the table's. -#}

{#- Counts the staged keys that the target has, and those of them that are staged as inserted. -#}
{% macro hw_keys_present_sql(target, stage, keys, within) -%}
select count(*) as present, count_if(_staged._operation = 'insert') as inserted from {{ target }} as _target
inner join {{ stage }} as _staged on {{ hw_equals(keys, '_target', '_staged') }}
where {{ within }}
{%- endmacro %}


{% macro hw_inserted_and_present_sql(target, stage, keys, within) -%}
select {{ hw_quoted(keys, '_target') | join(', ') }} from {{ target }} as _target
left semi join {{ stage }} as _staged on _staged._operation = 'insert' and {{ hw_equals(keys, '_target', '_staged') }}
where {{ within }}
{%- endmacro %}


{% macro hw_insert_sql(target, stage, beside, run) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(run) }})
select * except ({{ beside | join(', ') }}) from {{ stage }}
{%- endmacro %}


{#- Replaces the rows of the target that have staged keys, and removes deleted ones. It finds them only by the columns
    of its condition. `insert overwrite` would do the same, but it overwrites all rows if the session's
    partitionOverwriteMode is dynamic. -#}
{% macro hw_replace_keys_sql(target, stage, is_replaced, beside, run) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(run) }}, 'targetAlias' = '_target',
'replaceOn' = {{ hw_literal(is_replaced) }})
replace where true
select * except ({{ beside | join(', ') }}) from {{ stage }} as _staged where _operation <> 'delete'
{%- endmacro %}


{#- MERGE takes no options, so its condition has the run's name: a comparison that is always true, which Spark cannot
    know. -#}
{% macro hw_merge_sql(target, stage, is_same, look, run) -%}
merge into {{ target }} as _target using {{ stage }} as _staged
on {{ is_same }} and {{ look.within }} and _staged._operation <> {{ hw_literal(run) }}
{%- if look.deleted %}
when matched and _staged._operation = 'delete' then delete
{%- endif %}
{%- if look.updated %}
when matched then update set *
{%- endif %}
{%- if look.inserted %}
when not matched and _staged._operation = 'insert' then insert *
{%- endif %}
{%- endmacro %}


{% macro hw_insert_without_key_sql(target, stage, columns, run) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(run) }})
select {{ columns | map(attribute='quoted') | join(', ') }} from {{ stage }}
{%- endmacro %}


{#- A row that is staged as inserted matches no row. -#}
{% macro hw_merge_without_key_sql(target, stage, names, run) -%}
merge into {{ target }} as _target using {{ stage }} as _staged
on _staged._operation = 'delete' and {{ hw_equals(names, '_target', '_staged') }}
and _staged._operation <> {{ hw_literal(run) }}
when matched then delete
when not matched and _staged._operation = 'insert' then insert ({{ hw_quoted(names) | join(', ') }})
values ({{ hw_quoted(names, '_staged') | join(', ') }})
{%- endmacro %}
