{#- Selects every key's change from `old` to `new`, without unchanged rows. Both have `_row` and the key columns. It
    keeps all rows of a repeated key, so that the run refuses them; otherwise the new row would replace the unchanged
    one. `beside` has the columns that only the change set has, from `_old._row`. -#}
{% macro hw_classified_sql(new, old, keys, beside) -%}
    {%- set operation = "case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end" -%}
    {%- set copies = 'count(*) over (partition by ' ~ hw_quoted(keys) | join(', ') ~ ')' -%}
select inline(array(coalesce(_new._row, _old._row))){{ beside }}, {{ operation }} as _operation
from (select *, {{ copies }} as _copies from {{ new }}) as _new full outer join {{ old }} as _old on {{ hw_equals(keys, '_new', '_old') }}
where not (_new._row <=> _old._row) or _new._copies > 1
{%- endmacro %}


{#- Selects the changes from the target's rows of the affected keys, which `touched` restricts, to the recomputed rows.
    `recomputed` may use `_touched`, the keys. -#}
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
