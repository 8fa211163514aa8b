{#- Tables without a unique_key: rows are told apart by all of their columns, and equal rows are counted. A change set has for each row
    whose number changes one `delete`, if the table has it, and an `insert` for each of its copies from now on. -#}

{% macro hw_has_key(settings) %}
    {{ return(hw_as_list(settings.get('unique_key')) | length > 0) }}
{% endmacro %}


{#- The change set that takes the rows of one query away and adds those of the other. `present`: the rows of the table that are among
    them, a query; none where those that are taken away are all of their copies. An empty array leaves out the groups that net to nothing:
    Spark cannot optimize a HAVING over a union of which a scalar subquery is a column. -#}
{% macro hw_counted_change_set_sql(added, taken, columns, present=none) -%}
    {%- set names = columns | map(attribute='quoted') | join(', ') -%}
select {{ names }}, _operation from (
select {{ names }}, sum(_net) as _net, sum(_copies) as _copies from (
select {{ names }}, 1L as _net, 0L as _copies from (
{{ added }}
)
union all
select {{ names }}, -1L, {{ '0L' if present else '1L' }} from (
{{ taken }}
)
    {%- if present %}
union all
select {{ names }}, 0L, 1L from (
{{ present }}
)
    {%- endif %}
) group by {{ names }}
) lateral view explode(if(_net = 0, array(), concat(
array_repeat('delete', if(_copies > 0, 1, 0)),
array_repeat('insert', cast(greatest(_copies + _net, 0) as int)),
array_repeat('missing', if(_copies + _net < 0, 1, 0))
))) _operations as _operation
{%- endmacro %}


{#- The recomputed rows of the affected keys, against those that the target has of them. `recomputed` may use `_touched`, the keys. -#}
{% macro hw_recomputed_without_key_sql(target, affected, key, recomputed, columns, bounds) -%}
with _touched as (
{{ affected }}
)
{{ hw_counted_change_set_sql(recomputed, hw_rows_of_touched_sql(target, key, bounds), columns) }}
{%- endmacro %}


{% macro hw_rows_of_touched_sql(target, key, bounds) -%}
select _target.* from {{ target }} as _target
{{- hw_touched_rows_sql('_target', key, bounds) }}
{%- endmacro %}


{#- Inserted and deleted rows of a linear model, with the copies that the target has of them. -#}
{% macro hw_difference_without_key_sql(target, inserted, deleted, columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
with _gained as (
{{ inserted }}
),
_lost as (
{{ deleted }}
)
{{ hw_counted_change_set_sql('select * from _gained', 'select * from _lost', columns, hw_present_copies_sql(target, names)) }}
{%- endmacro %}


{% macro hw_present_copies_sql(target, names) -%}
select _target.* from {{ target }} as _target left semi join (select * from _gained union select * from _lost) as _changed
on {{ hw_equals(names, '_target', '_changed') }}
{%- endmacro %}


{#- What the rest of the run needs to know of such a change set. -#}
{% macro hw_inspect_without_key(target, stage) %}
    {%- set row = run_query(hw_inspection_without_key_sql(target, stage)).rows[0] -%}
    {%- set inserted, deleted = row['inserted'] | int, row['deleted'] | int -%}
    {{ return({
        'rows': inserted + deleted, 'inserted': inserted, 'updated': 0, 'deleted': deleted, 'missing': row['missing'] | int,
        'bytes': row['bytes'] | int, 'misplaced': 0, 'stage_type': row['stage_type'], 'target_type': row['target_type'],
    }) }}
{% endmacro %}


{% macro hw_inspection_without_key_sql(target, stage) -%}
select count_if(_operation = 'insert') as inserted, count_if(_operation = 'delete') as deleted, count_if(_operation = 'missing') as missing,
{{ hw_bytes_and_types_sql(target, ['_operation']) }}
from {{ stage }}
{%- endmacro %}


{#- From the staged change set to the target, in one commit; as `hw_apply_staged`. -#}
{% macro hw_apply_without_key(target, stage, columns, look) %}
    {%- if look.rows and look.target_type != look.stage_type -%}
        {{ return(dict(look, refused='the columns changed')) }}
    {%- elif look.missing -%}
        {{ return(dict(look, refused=hw_rows_missing())) }}
    {%- elif look.rows == 0 -%}
        {{ return(look) }}
    {%- elif not look.deleted -%}
        {%- do run_query(hw_insert_without_key_sql(target, stage, columns)) -%}
        {{ return(look) }}
    {%- endif -%}
    {%- set done = run_query(hw_merge_without_key_sql(target, stage, columns)).rows[0] -%}
    {%- if done['num_deleted_rows'] | int < look.deleted -%}
        {{ return(dict(look, refused=hw_rows_missing())) }}
    {%- endif -%}
    {{ return(dict(look, why_merge='it has no unique_key')) }}
{% endmacro %}


{% macro hw_insert_without_key_sql(target, stage, columns) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(adapter.signature(hw_run_id())) }})
select {{ columns | map(attribute='quoted') | join(', ') }} from {{ stage }}
{%- endmacro %}


{#- A row that is staged to be inserted matches none. -#}
{% macro hw_merge_without_key_sql(target, stage, columns) -%}
    {%- set names = columns | map(attribute='name') | list -%}
merge into {{ target }} as _target using {{ stage }} as _staged
on _staged._operation = 'delete' and {{ hw_equals(names, '_target', '_staged') }}
and _staged._operation <> {{ hw_literal(adapter.signature(hw_run_id())) }}
when matched then delete
when not matched and _staged._operation = 'insert' then insert ({{ hw_quoted(names) | join(', ') }})
values ({{ hw_quoted(names, '_staged') | join(', ') }})
{%- endmacro %}
