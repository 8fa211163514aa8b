{#- What a model's text does not tell is tried with rows. -#}

{#- Under `on_lookup_change: ignore` rows keep what lookups had when they were written, so a lookup must not say which
    rows and keys there are: a row whose lookup row was deleted could not be found when its input row is. Compares the
    keys of some rows of the input, all or those that changed, with the keys that the SQL gives where lookups have no
    rows. Returns why the changes cannot be read, or ''. -#}
{% macro hw_refuse_keys_of_lookups(target, sql, inputs, settings, plan=none) %}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set lookups = inputs | selectattr('kind', 'equalto', 'lookup') | list -%}
    {%- if not lookups or settings.get('on_lookup_change') != 'ignore' or strategy.many_inputs
        or lookups | selectattr('version', 'none') | list -%}
        {{ return('') }}
    {%- endif -%}
    {%- set followed = {} -%}
    {%- for spec in inputs if plan and spec.kind != 'lookup' -%}
        {%- do followed.update({spec.text: hw_hook(strategy, 'changed_rows_sql')(spec, plan.ranges[spec.source])}) -%}
    {%- endfor -%}
    {%- set query = hw_keys_of_lookups_sql(sql, hw_quoted(settings.get('unique_key')) | join(', '), followed, hw_without_rows(lookups)) -%}
    {%- set reading = hw_read_changes(query, plan) if plan else run_query(query) -%}
    {%- if plan and reading.gap -%}
        {{ return(reading.gap) }}
    {%- endif -%}
    {%- if reading.rows | length -%}
        {{ hw_raise('KEYS_OF_LOOKUP', target ~ ' has on_lookup_change: ignore, and a lookup says which rows or keys it has, as for '
            ~ reading.rows[0].values() | join(', ') ~ ': such a row could not be found when its input row is deleted. Join '
            ~ 'the lookup with left join '
            ~ 'and take unique_key from the input, or write on_lookup_change: rebuild.') }}
    {%- endif -%}
    {{ return('') }}
{% endmacro %}


{#- No HAVING: see hw_counted_change_set_sql. -#}
{% macro hw_keys_of_lookups_sql(sql, keys, followed, without_lookups) -%}
select {{ keys }} from (
select {{ keys }}, sum(_balance) as _balance from (
select {{ keys }}, 1 as _balance from (
{{ hw_with_inputs(sql, followed) }}
)
union all
select {{ keys }}, -1 as _balance from (
{{ hw_with_inputs(sql, dict(followed, **without_lookups)) }}
)
) group by {{ keys }}
) lateral view explode(if(_balance = 0, array(), array(_balance))) _balances as _differs limit 1
{%- endmacro %}


{#- A thousand rows of an input, when the SQL builds its first table, or another SQL than before: see the hooks tried_rows
    and differences_sql. -#}
{% macro hw_check_by_rows(target, sql, inputs, settings, columns) %}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set tried = hw_hook(strategy, 'tried_rows')(inputs, settings) -%}
    {%- if not tried -%}
        {{ return('') }}
    {%- endif -%}
    {%- set spec = tried.spec -%}
    {%- set sample = hw_staging_relation(target) -%}
    {%- set differences = hw_hook(strategy, 'differences_sql')(sql, inputs, spec, settings, columns, sample) -%}
    {%- do hw_create_staging_table(sample, hw_sample_sql(spec, tried.half)) -%}
    {%- set found = run_query(differences).rows[0].dict() -%}
    {%- do hw_drop_staging_table(sample) -%}
    {%- for name, differs in found.items() if differs -%}
        {{ hw_raise('ROWS_DIFFER', hw_hook(strategy, 'difference_text')(target, spec, name)) }}
    {%- endfor -%}
{% endmacro %}


{% macro hw_sample_sql(spec, half) -%}
select *, {{ half }} % 2 = 0 as _in_half from {{ spec.source }} version as of {{ spec.version }} limit 1000
{%- endmacro %}


{#- One row: `_apart`, how many rows all of the sample gives and its halves do not, or the other way round, each side
    computed once, as in proof.sql; and where keys are recomputed, `_elsewhere`, how many are of other keys than the
    sample's. Then floating-point columns are left out: a sum of theirs depends on the order of adding. -#}
{% macro hw_differences_of_halves_sql(sql, inputs, spec, columns, sample) -%}
    {%- set key = (spec.key or {}) | list | sort -%}
    {%- set compared = [] -%}
    {%- for column in columns if not key or column.name | lower in key | map('lower')
        or not modules.re.search('\\b(double|float)\\b', column.dtype) -%}
        {%- do compared.append(hw_quote(column.name)) -%}
    {%- endfor -%}
select count_if(_strays) as _elsewhere, count_if(_net <> 0) as _apart
from (select * except (_balance, _stray), sum(_balance) as _net, bool_or(_stray) as _strays from (
    {%- for rows, balance in [('true', 1), ('_in_half', -1), ('not _in_half', -1)] %}
        {%- set side = hw_with_inputs(sql, {spec.text: '(select * except (_in_half) from ' ~ sample ~ ' where ' ~ rows ~ ')'}) %}
{{ 'union all' if not loop.first }}
select {{ compared | join(', ') }}, {{ balance }} as _balance, {{ '_is_touched is null' if key else 'false' }} as _stray from (
{{ hw_side_of_keys_sql(side, inputs, spec, key, sample, rows) if key else side }}
)
    {%- endfor %}
) group by all)
{%- endmacro %}


{% macro hw_side_of_keys_sql(sql, inputs, spec, key, sample, rows) -%}
    {%- set keys = hw_keys_of_sample_sql(spec, sample, rows) -%}
select _model.*, _is_touched from (
{{ hw_of_keys_sql(sql, inputs, keys ~ ' as _touched') }}
) as _model left join {{ keys }} as _known on {{ hw_equals(key, '_model', '_known') }}
{%- endmacro %}


{% macro hw_keys_of_sample_sql(spec, sample, rows) -%}
(select distinct {{ hw_key_columns(spec, '_input') }}, true as _is_touched from {{ sample }} as _input where {{ rows }})
{%- endmacro %}
