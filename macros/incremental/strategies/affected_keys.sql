{#- Whatever can be computed key by key: the keys that changed rows have are recomputed from the pinned inputs, and
    compared with the target's rows of them. -#}
{% macro hw_affected_keys__change_set_sql(target, sql, plan, settings, columns, bounds) %}
    {%- set key = hw_affected_keys__affected_key_columns(plan, settings) -%}
    {%- set affected = plan.facts.known_keys or hw_affected_keys__affected_keys_sql(sql, plan, settings) -%}
    {%- set recomputed = hw_rows_of_affected_keys_sql(target, sql, plan.inputs, key, bounds) -%}
    {%- if not hw_has_key(settings) -%}
        {{ return(hw_recomputed_without_key_sql(target, affected, key, recomputed, columns, bounds)) }}
    {%- endif -%}
    {{ return(hw_recomputed_sql(target, affected, key, recomputed, settings, bounds)) }}
{% endmacro %}


{#- The model's rows of the affected keys. A row of another key would not be recomputed when it changes. -#}
{% macro hw_rows_of_affected_keys_sql(target, sql, inputs, key, bounds) -%}
select _model.* from (
{{ hw_of_keys_sql(sql, inputs, '_touched', bounds) }}
) as _model left join (select *, true as _is_touched from _touched) as _known on {{ hw_equals(key, '_model', '_known') }}
where if(_is_touched, true, raise_error({{ hw_literal(hw_unaffected_key_text(target, key)) }}))
{%- endmacro %}


{% macro hw_affected_keys__affected_keys_sql(sql, plan, settings) -%}
    {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
select distinct * from (
    {%- for spec in affected if spec.source in plan.ranges and plan.ranges[spec.source].rows > 0 %}
        {%- set feed = hw_feed_of_range(spec.source, plan.ranges[spec.source]) %}
{{ 'union all' if not loop.first }}
{{ hw_keys_of_rows_sql(spec, feed, affected, adapter.is_broadcast(plan.ranges[spec.source].rows)) }}
    {%- endfor %}
)
{%- endmacro %}


{% macro hw_affected_keys__affected_key_columns(plan, settings) %}
    {{ return(hw_followed_input(plan.inputs).key | list | sort) }}
{% endmacro %}


{#- The keys that are recomputed, among those of the table. Runs a statement. -#}
{% macro hw_affected_keys__share_changed(relation, sql, plan, settings) %}
    {{ return(hw_share_of_keys(relation, hw_affected_keys__affected_keys_sql(sql, plan, settings),
        hw_affected_keys__affected_key_columns(plan, settings), plan, settings)) }}
{% endmacro %}


{#- `affected` selects the columns of `key`. Runs a statement. -#}
{% macro hw_share_of_keys(relation, affected, key, plan, settings) %}
    {%- set rows_are_keys = key | map('lower') | sort | list == hw_as_list(settings.get('unique_key')) | map('lower') | sort | list -%}
    {%- set reading = hw_read_changes(hw_share_of_keys_sql(relation, affected, key, rows_are_keys), plan) -%}
    {%- if reading.gap -%}
        {{ return({'gap': reading.gap}) }}
    {%- endif -%}
    {%- set row = reading.rows[0] -%}
    {{ return({'part': row['touched'] | int, 'whole': row['present'] | int, 'what': 'affected keys', 'above': 0.3}) }}
{% endmacro %}


{#- How many rows a table has, Delta tells without reading them. -#}
{% macro hw_share_of_keys_sql(relation, affected, key, rows_are_keys) -%}
select (select count(*) from (
{{ affected }}
)) as touched, (
select {{ 'count(*)' if rows_are_keys else 'approx_count_distinct(struct(' ~ hw_quoted(key) | join(', ') ~ '))' }}
from {{ relation }}
) as present
{%- endmacro %}


{% macro hw_affected_keys__check(where, sql, inputs, settings) %}
    {%- set affected = inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- for spec in affected -%}
        {%- if spec.key | sort != affected[0].key | sort -%}
            {{ hw_raise('KEYS_DIFFER', where ~ ': its inputs name different keys, ' ~ affected[0].source ~ ' ' ~ affected[0].key | list
                ~ ' and '
                ~ spec.source ~ ' ' ~ spec.key | list ~ '. All must lead to the same columns of the model; '
                ~ 'key={"model_column": "input_column"} where the names differ.') }}
        {%- elif spec.via and spec.via not in affected | map(attribute='source') -%}
            {{ hw_raise('VIA_NOT_AN_INPUT', where ~ ': affected(' ~ spec.source ~ ', via=' ~ spec.via
                ~ ') goes through a table that is not an affected() input of the model itself.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{% macro hw_affected_keys__tried_rows(inputs, settings) %}
    {%- set spec = inputs | selectattr('kind', 'equalto', 'affected') | rejectattr('via') | rejectattr('version', 'none') | first
        | default(none) -%}
    {%- if settings.get('allow_nondeterministic') or not spec -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return({'spec': spec, 'half': 'xxhash64(' ~ hw_quoted(spec.key.values()) | join(', ') ~ ')'}) }}
{% endmacro %}


{% macro hw_affected_keys__difference_text(target, spec, name) %}
    {%- if name == '_elsewhere' -%}
        {{ return(hw_unaffected_key_text(target, spec.key | list | sort)) }}
    {%- endif -%}
    {{ return(
        target ~ ' gives other rows for some keys of ' ~ spec.source ~ ' at once than for one half of them and the other: a '
            ~ 'row of its result depends on rows of other keys, '
        ~ 'as in a subquery or a join that looks at all of them, or on chance, as in a rank where rows tie or a list without '
        ~ 'an order. Compute what spans keys in a model of '
        ~ 'its own and read it with lookup(), and order by columns that tell all rows apart; or say allow_nondeterministic if '
        ~ 'rows may keep the answer of the run that wrote them.'
    ) }}
{% endmacro %}


{% macro hw_unaffected_key_text(target, key) %}
    {%- set names = key | join(', ') -%}
    {{ return(
        target ~ ' has a row of ' ~ names ~ ' that comes from no row of an affected() input with that value, so no change of '
            ~ 'theirs leads to it. Select ' ~ names
        ~ ' from them as it is, and mark a table that all keys come from with affected(), not lookup().'
    ) }}
{% endmacro %}


{% macro hw_affected_keys__facts_before_staging(target, sql, plan, settings) %}
    {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- set others = [] -%}
    {%- for spec in affected if not spec.via -%}
        {%- do others.append('select ' ~ hw_key_columns(spec, '_keyed') ~ ' from ' ~ hw_input_sql(spec) ~ ' as _keyed') -%}
    {%- endfor -%}
    {%- set known = hw_facts_of_affected_keys(target, sql, plan, settings, others) -%}
    {%- if known.are_stored and known.same_columns and not known.gap -%}
        {%- do hw_store_leading_rows(target, sql, affected, plan, known) -%}
    {%- endif -%}
    {{ return(known) }}
{% endmacro %}
