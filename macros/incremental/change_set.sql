{#- `new` and `old` each have `_row` and the key columns; every key's change from old to new, without the rows that stay
    the same. Of a key that comes more than once all rows are kept, or the one that is new would replace the one that
    stays: `hw_apply_staged` refuses them. -#}
{% macro hw_classified_sql(new, old, keys, settings) -%}
    {%- set operation = "case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end" -%}
    {%- set copies = 'count(*) over (partition by ' ~ hw_quoted(keys) | join(', ') ~ ')' -%}
select inline(array(coalesce(_new._row, _old._row))){{ hw_beside_sql(settings, '_old._row') }}, {{ operation }} as _operation
from (select *, {{ copies }} as _copies from {{ new }}) as _new full outer join {{ old }} as _old on {{ hw_equals(keys, '_new', '_old') }}
where not (_new._row <=> _old._row) or _new._copies > 1
{%- endmacro %}


{#- Columns that say where in the target a row lies, besides its key: what the table is partitioned or clustered by, and `prune_by`. None
    where the old rows are computed, not read, and may by the model's own leave be others than the target has; and without a key, where
    rows are found by all of their columns. -#}
{% macro hw_prune_columns(settings) %}
    {%- set columns = [] -%}
    {%- if not hw_as_list(settings.get('unique_key')) -%}{{ return(columns) }}{%- endif -%}
    {%- if adapter.strategy_of(settings).computes_old_rows
        and (settings.get('allow_nondeterministic') or settings.get('on_lookup_change') == 'ignore') -%}
        {{ return(columns) }}
    {%- endif -%}
    {%- set places = hw_as_list(settings.get('partition_by')) + hw_as_list(settings.get('cluster_by'))
        + hw_as_list(settings.get('prune_by')) -%}
    {%- for column in places
        if column | lower not in (columns + hw_as_list(settings.get('unique_key'))) | map('lower') -%}
        {%- do columns.append(column) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- What a change set has beside the table's columns: where the row that a change replaces lay, as columns `_before_1`, …: its own values,
    not the new row's, so that a row that moved is found where it was; and that row itself, `_replaced`, where it is handed on. `row`
    has its columns, `whole` is all of it. Without a row that is replaced, where the new one lies. -#}
{% macro hw_beside_sql(settings, row=none, whole=row) %}
    {%- set columns = [] -%}
    {%- for column in hw_prune_columns(settings) -%}
        {%- do columns.append(', ' ~ (row ~ '.' if row else '') ~ hw_quote(column) ~ ' as _before_' ~ loop.index) -%}
    {%- endfor -%}
    {%- if hw_served(settings) -%}{%- do columns.append(', ' ~ (whole or 'cast(null as boolean)') ~ ' as _replaced') -%}{%- endif -%}
    {{ return(columns | join) }}
{% endmacro %}


{% macro hw_before_names(settings) %}
    {%- set names = [] -%}
    {%- for column in hw_prune_columns(settings) -%}{%- do names.append('_before_' ~ loop.index) -%}{%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{#- The columns of a change set that are not the table's. -#}
{% macro hw_beside_names(settings) %}
    {{ return(['_operation'] + hw_before_names(settings) + (['_replaced'] if hw_served(settings) else [])) }}
{% endmacro %}


{#- A change set with the table's columns and `_operation` only. -#}
{% macro hw_rows_alone_sql(rows, settings) %}
    {%- set others = hw_beside_names(settings) | reject('equalto', '_operation') | list -%}
    {{ return('select * except (' ~ others | join(', ') ~ ') from (\n' ~ rows ~ '\n)' if others else rows) }}
{% endmacro %}


{#- The models of this invocation that read what this one changes from its staging table. The last of them drops it, or the hook at the
    end of the invocation. -#}
{% macro hw_served(settings) %}
    {%- if not var('headwaters_hooks', true) -%}{{ return([]) }}{%- endif -%}
    {{ return(adapter.served(model.unique_id, graph, selected_resources, settings, hw_choice_of_foreign_write(settings))) }}
{% endmacro %}


{#- The recomputed rows of the affected keys, against the rows that the target has of them. `recomputed` may use `_touched`, the keys. -#}
{% macro hw_recomputed_sql(target, affected, key, recomputed, settings, bounds) -%}
    {%- set unique_key = hw_as_list(settings.get('unique_key')) -%}
with _touched as (
{{ affected }}
),
_recomputed as (select struct(*) as _row, {{ hw_quoted(unique_key) | join(', ') }} from (
{{ recomputed }}
)),
_present as (select struct(_target.*) as _row, {{ hw_quoted(unique_key, '_target') | join(', ') }} from {{ target }} as _target
{{- hw_touched_rows_sql('_target', key, bounds) }})
{{ hw_classified_sql('_recomputed', '_present', unique_key, settings) }}
{%- endmacro %}
