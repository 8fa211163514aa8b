{#- Selects the events of a change stream, once each, in the order of the source: the columns of `key`, `sequence`, `changed_at`,
    `is_deletion`, and `columns`. Bronze has them, with `position`, the place of a record in its partition. A tombstone has no sequence: it
    is ordered with the previous event of its key, and deletes the row of that event. Of several events of one key and sequence, a deletion
    wins, then the greatest. If an event lacks a value (bronze names its column in `_unavailable`), the value is that of the last event that
    has one, back to the last deletion. -#}
{% macro change_events(relation, key, columns, unavailable=none) -%}
    {%- set key_columns = hw_quoted(hw_as_list(key)) | join(', ') -%}
    {%- set marked = hw_unavailable(relation, columns) if unavailable is none else unavailable -%}
    {%- set stored = columns + (['_unavailable'] if marked else []) -%}
    {%- set row_columns = hw_quoted(stored) | join(', ') -%}
{%- if marked -%}
select {{ key_columns }}, sequence, changed_at, is_deletion
{%- for column in columns %}, {{ hw_known_value(column, marked) }}{% endfor %},
array_compact(array({{ hw_unknown_names(marked) }})) as _unavailable from (
select *
{%- for column in marked %}, {{ hw_last_known(key_columns, column) }} as _known_{{ loop.index }}{% endfor %} from (
{% endif -%}
select {{ key_columns }}, sequence, _event.changed_at, _event.is_deletion, {{ hw_quoted(stored, '_event') | join(', ') }} from (
select {{ key_columns }}, sequence, max(struct(is_deletion, changed_at, {{ row_columns }})) as _event from (
select {{ key_columns }}, coalesce(sequence, _preceding[1]) as sequence,
coalesce(changed_at, timestamp_micros(_preceding[2])) as changed_at, coalesce(is_deletion, true) as is_deletion, {{ row_columns }} from (
select *, max(case when sequence is not null then array(position, sequence, unix_micros(changed_at)) end) over (
partition by {{ key_columns }} order by position range between unbounded preceding and current row) as _preceding
from {{ relation }}
)
)
where sequence is not null group by {{ key_columns }}, sequence
)
{%- if marked %}
)
)
{%- endif -%}
{%- endmacro %}


{#- Returns the columns that events of a stream may lack, by its contract. No contract is known while dbt parses, or
    in a unit test, whose graph has no sources. -#}
{% macro hw_unavailable(relation, columns) %}
    {%- if not execute -%}{{ return([]) }}{%- endif -%}
    {{ return(adapter.streams.unavailable_columns(graph.get('sources', {}), relation.schema or '', relation.identifier or '', columns)) }}
{% endmacro %}


{#- Selects the newest event up to this one that knows the value of a column; a deletion knows that the column has none. -#}
{% macro hw_last_known(key_columns, column) -%}
    max(case when is_deletion or not coalesce(array_contains(_unavailable, {{ hw_literal(column) }}), false)
then struct(sequence, is_deletion, case when not is_deletion then {{ hw_quote(column) }} end as value) end) over (
partition by {{ key_columns }} order by sequence range between unbounded preceding and current row)
{%- endmacro %}


{#- Selects the names of the columns that no event up to this one, back to the last deletion, has a value for. -#}
{% macro hw_unknown_names(marked) -%}
    {%- for column in marked -%}
        case when not is_deletion and coalesce(_known_{{ loop.index }}.is_deletion, true) then {{ hw_literal(column) }} end
        {%- if not loop.last %}, {% endif -%}
    {%- endfor -%}
{%- endmacro %}


{% macro hw_known_value(column, marked) -%}
    {%- if column in marked -%}
        case when is_deletion then {{ hw_quote(column) }} else _known_{{ marked.index(column) + 1 }}.value end as {{ hw_quote(column) }}
    {%- else -%}{{ hw_quote(column) }}{%- endif -%}
{%- endmacro %}
