{#- The events of a change stream, once each and each with its place in the source's order: the columns of `key`, `sequence`,
    `changed_at`, `is_deletion`, and `columns`. Bronze has them, with `position` for the place of a record in its partition. A
    tombstone has no sequence: it is ordered with the event of its key before it, and deletes what that one left. Of several events
    of one key and sequence the greatest counts, a deletion before any other. -#}
{% macro change_events(relation, key, columns) -%}
    {%- set key_columns = hw_quoted(hw_as_list(key)) | join(', ') -%}
    {%- set row_columns = hw_quoted(columns) | join(', ') -%}
select {{ key_columns }}, sequence, _event.changed_at, _event.is_deletion, {{ hw_quoted(columns, '_event') | join(', ') }} from (
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
{%- endmacro %}
