{#- `new` and `old` each have `_row` and the key columns; every key's change from old to new, without the rows that stay
    the same. Of a key that comes more than once all rows are kept, or the one that is new would replace the one that
    stays: the run refuses them. `beside`: what a change set has beside the table's columns, of `_old._row`. -#}
{% macro hw_classified_sql(new, old, keys, beside) -%}
    {%- set operation = "case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end" -%}
    {%- set copies = 'count(*) over (partition by ' ~ hw_quoted(keys) | join(', ') ~ ')' -%}
select inline(array(coalesce(_new._row, _old._row))){{ beside }}, {{ operation }} as _operation
from (select *, {{ copies }} as _copies from {{ new }}) as _new full outer join {{ old }} as _old on {{ hw_equals(keys, '_new', '_old') }}
where not (_new._row <=> _old._row) or _new._copies > 1
{%- endmacro %}


{#- The recomputed rows of the affected keys, against the rows that the target has of them, which `touched` restricts. `recomputed` may
    use `_touched`, the keys. -#}
{% macro hw_recomputed_sql(target, affected, touched, recomputed, keys, beside) -%}
with _touched as (
{{ affected }}
),
_recomputed as (select struct(*) as _row, {{ hw_quoted(keys) | join(', ') }} from (
{{ recomputed }}
)),
_present as (select struct(_target.*) as _row, {{ hw_quoted(keys, '_target') | join(', ') }} from {{ target }} as _target
{{- touched }})
{{ hw_classified_sql('_recomputed', '_present', keys, beside) }}
{%- endmacro %}
