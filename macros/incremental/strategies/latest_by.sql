{#- `change_feed` with `latest_by`: the greatest row of each key. Inserted rows are compared with the table's; after
    updates and deletes the affected keys are recomputed, since the row that comes next is in the input alone. -#}
{% macro hw_latest_by__full_refresh_sql(sql, settings, columns) %}
    {{ return(hw_latest_rows_sql(sql, settings)) }}
{% endmacro %}


{#- The greatest row of each key by `latest_by`; rows equal in those columns are told apart by the rest of the row, so that the
    result does not depend on the order of reading. -#}
{% macro hw_latest_rows_sql(sql, settings) -%}
select inline(array(_latest._row)) from (select max(struct({{ hw_quoted(settings.get('latest_by'))
    | join(', ') }}, struct(*) as _row)) as _latest from (
{{ sql }}
) group by {{ hw_quoted(settings.get('unique_key')) | join(', ') }})
{%- endmacro %}


{% macro hw_latest_by__change_set_sql(target, sql, plan, settings, columns, bounds) %}
    {%- set spec = hw_followed_input(plan.inputs) -%}
    {%- set range = plan.ranges[spec.source] -%}
    {%- if range.inserts_only -%}
        {%- set inserted = hw_with_inputs(sql, {spec.text: hw_net_rows(range, spec.source, 1)}) -%}
        {%- set few = adapter.is_broadcast(plan.rows) -%}
        {{ return(hw_newer_rows_sql(target, hw_latest_rows_sql(inserted, settings), settings, bounds, few)) }}
    {%- endif -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set rows = hw_latest_by__rows_of_keys_sql(sql, keys) -%}
    {%- set affected = plan.facts.known_keys or hw_latest_by__affected_keys_sql(sql, plan, settings) -%}
    {#- what `prune_by` says of a key need not hold for what the target has of it -#}
    {{ return(hw_recomputed_sql(target, affected, keys, hw_latest_rows_sql(rows, settings), settings, bounds[:keys | length])) }}
{% endmacro %}


{% macro hw_latest_by__rows_of_keys_sql(sql, keys) -%}
select _all.* from (
{{ sql }}
) as _all left semi join _touched on {{ hw_equals(keys, '_all', '_touched') }}
{%- endmacro %}


{#- The greatest rows of a batch against the rows that the target has: only a greater row replaces one. -#}
{% macro hw_newer_rows_sql(target, winners, settings, bounds, few) -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set order = hw_as_list(settings.get('latest_by')) -%}
    {%- set new, old = hw_quoted(order, '_new') | join(', '), hw_quoted(order, '_old') | join(', ') -%}
with _winners as (select struct(*) as _row, * from (
{{ winners }}
)),
_present as (select struct(*) as _row, * from {{ hw_rows_of_few_keys_sql(target, '_winners', keys) if few else target }} as _target
where {{ adapter.within_bounds(bounds, '_target') }})
select inline(array(_new._row)){{ hw_beside_sql(settings, '_old._row') }}, if(_old._row is null, 'insert', 'update') as _operation
from _winners as _new left join _present as _old on {{ hw_equals(keys, '_new', '_old') }}
where _old._row is null or struct({{ new }}, _new._row) > struct({{ old }}, _old._row)
{%- endmacro %}


{% macro hw_latest_by__affected_keys_sql(sql, plan, settings) -%}
select distinct * from ({{ hw_changed_rows_sql(sql, plan, hw_latest_by__affected_key_columns(plan, settings)) }})
{%- endmacro %}


{#- The key, and what `prune_by` says that it determines. -#}
{% macro hw_latest_by__affected_key_columns(plan, settings) %}
    {%- set columns = hw_as_list(settings.get('unique_key')) | list -%}
    {%- for column in hw_as_list(settings.get('prune_by')) if column | lower not in columns | map('lower') -%}
        {%- do columns.append(column) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{% macro hw_latest_by__share_changed(relation, sql, plan, settings) %}
    {%- set share = hw_default__share_changed(relation, sql, plan, settings) -%}
    {{ return(share if hw_way_of_plan(plan) == 'inserts' else dict(share, above=0.05)) }}
{% endmacro %}


{% macro hw_latest_by__facts_before_staging(target, sql, plan, settings) %}
    {{ return(dict(hw_facts_of_affected_keys(target, sql, plan, settings), of_rows=true)) }}
{% endmacro %}
