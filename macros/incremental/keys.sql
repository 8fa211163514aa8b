{#- Models that are computed key by key: their rows of some keys, and what has to be known of the keys before. -#}

{#- An affected() input's key under the names that the model's columns have. -#}
{% macro hw_key_columns(spec, alias) %}
    {%- set columns = [] -%}
    {%- for name in spec.key | sort -%}
        {%- do columns.append(hw_key_value(spec, name, alias) ~ ' as ' ~ hw_quote(name)) -%}
    {%- endfor -%}
    {{ return(columns | join(', ')) }}
{% endmacro %}


{#- One column of it, as the model's table has it. Inputs without `stored` are those of a model that is not planned. -#}
{% macro hw_key_value(spec, name, alias) %}
    {%- set value = alias ~ '.' ~ hw_quote(spec.key[name]) -%}
    {{ return(hw_as_stored_value(value) if name in spec.get('stored', []) else value) }}
{% endmacro %}


{#- The input that leads from another one to the key; it may itself be led to it. -#}
{% macro hw_via_of(spec, affected) %}
    {{ return((affected | selectattr('source', 'equalto', spec.via) | list)[0]) }}
{% endmacro %}


{#- The keys to which rows of an input lead, through other inputs at their pinned versions. `few`: so few that they are sent everywhere. -#}
{% macro hw_keys_of_rows_sql(spec, rows, affected, few=false) -%}
    {%- if not spec.via -%}
select {{ hw_key_columns(spec, '_rows') }} from {{ rows }} as _rows
    {%- else -%}
        {%- set via = hw_via_of(spec, affected) -%}
{{ hw_keys_of_rows_sql(via, hw_rows_of_via_sql(spec, rows, via, few), affected) }}
    {%- endif -%}
{%- endmacro %}


{% macro hw_rows_of_via_sql(spec, rows, via, few) -%}
(select {{ '/*+ broadcast(_rows) */ ' if few }}_via.* from {{ hw_input_sql(via) }} as _via
left semi join {{ rows }} as _rows on {{ hw_equals_via(spec, '_rows') }})
{%- endmacro %}


{#- An input's rows and those of `_via` that share what its `on` names: {its column: the other's}. -#}
{% macro hw_equals_via(spec, alias) %}
    {%- set pairs = [] -%}
    {%- for own, other in spec.on.items() -%}
        {%- do pairs.append(alias ~ '.' ~ hw_quote(own) ~ ' <=> _via.' ~ hw_quote(other)) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{% endmacro %}


{#- The model's SQL over some keys alone: every affected() input without the rows of other keys. `keys` is a relation of the key's columns,
    which goes by the name _touched; they lie within `bounds`. -#}
{% macro hw_of_keys_sql(sql, inputs, keys, bounds=[]) %}
    {%- set affected = inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- set restricted = {} -%}
    {%- for spec in affected -%}
        {%- do restricted.update({spec.text: hw_input_of_keys_sql(spec, affected, keys, bounds)}) -%}
    {%- endfor -%}
    {{ return(hw_with_inputs(sql, restricted)) }}
{% endmacro %}


{% macro hw_input_of_keys_sql(spec, affected, keys, bounds) -%}
    {%- if spec.rows_at_hand -%}{{ return(spec.rows_at_hand | string) }}{%- endif -%}
(select _input.* from {{ hw_input_sql(spec) }} as _input
    {%- if spec.via %}
        {%- set via = hw_via_of(spec, affected) %}
left semi join {{ hw_input_of_keys_sql(via, affected, keys, bounds) }} as _via
on {{ hw_equals_via(spec, '_input') }})
    {%- else %}{{ hw_join_of_keys_sql(spec, '_input', keys, bounds) }})
    {%- endif -%}
{%- endmacro %}


{#- The join with the affected keys, `_touched`; none where the bounds list the keys, and are a condition beside it. -#}
{% macro hw_touched_rows_sql(alias, key, bounds) -%}
    {%- if not adapter.lists_all(bounds) %}
left semi join _touched on {{ hw_equals(key, alias, '_touched') }}
    {%- endif %}
where {{ adapter.within_bounds(bounds, alias) }}
{%- endmacro %}


{#- The rows of a table whose keys are among those of `rows`, few enough to be sent everywhere. An outer join of few rows with the table
    would have Spark sort all of it by the key. -#}
{% macro hw_rows_of_few_keys_sql(table, rows, keys) -%}
(select /*+ broadcast(_few) */ _all.* from {{ table }} as _all left semi join {{ rows }} as _few on {{ hw_equals(keys, '_all', '_few') }})
{%- endmacro %}


{#- Bounds of a stored key that may be NULL are left out: what is NULL in the table may be an empty text in the input. -#}
{% macro hw_join_of_keys_sql(spec, alias, keys, bounds) -%}
    {%- set known = [] -%}
    {%- for bound in bounds if not (bound.nulls and bound.column in spec.get('stored', [])) -%}{%- do known.append(bound) -%}{%- endfor -%}
    {%- if not adapter.lists_all(known) %}
left semi join {{ keys }} on {% for name in spec.key %}{{ hw_key_value(spec, name, alias) }} <=> _touched.{{ hw_quote(name) }}
    {{- ' and ' if not loop.last }}
    {%- endfor %}
    {%- endif %} where {{ adapter.within_bounds(known, alias, spec.key) }}
{%- endmacro %}


{#- Where in the target, and in inputs that are read by key, the affected keys are (`bounds`), the keys themselves as SQL that reads no
    feed (`known_keys`): literals where they are few, or stored; whether the model has the table's columns (`same_columns`), or why a
    feed cannot be read (`gap`). `others` select the keys' columns. One statement, two where the keys are stored. -#}
{% macro hw_facts_of_affected_keys(target, sql, plan, settings, others=[]) %}
    {%- set columns = hw_hook(adapter.strategy_of(settings), 'affected_key_columns')(plan, settings) -%}
    {%- set list_rows = adapter.is_small_change(plan.rows) -%}
    {%- set known = {} if list_rows else hw_store_affected_keys(target, sql, plan, settings) -%}
    {%- if known.gap -%}{{ return(known) }}{%- endif -%}
    {%- set types = [hw_type_of('select * from ' ~ target) ~ ' as held', hw_type_of(sql) ~ ' as given'] -%}
    {%- set keys = known.known_keys or hw_affected_keys_sql(sql, plan, settings) -%}
    {%- set question = hw_affected_bounds_sql(target, keys, columns, list_rows, others, types) -%}
    {%- set reading = hw_read_changes(question, plan) -%}
    {%- if reading.gap -%}
        {{ return({'gap': reading.gap}) }}
    {%- endif -%}
    {%- set row = reading.rows[0] -%}
    {%- set bounds = hw_affected_bounds(row, columns, list_rows) -%}
    {%- do known.update({'bounds': bounds, 'same_columns': row['held'] == row['given']}) -%}
    {%- if not known.known_keys -%}
        {%- do known.update({'known_keys': adapter.keys_as_sql(row, bounds)}) -%}
    {%- endif -%}
    {%- if not known.known_keys and adapter.is_worth_storing(plan.rows) -%}
        {%- do known.update(hw_store_affected_keys(target, sql, plan, settings)) -%}
    {%- endif -%}
    {{ return(known) }}
{% endmacro %}


{#- The affected keys, by the feeds as the plan reads them by now: a statement may have found that U+FFFD in them is the input's own. -#}
{% macro hw_affected_keys_sql(sql, plan, settings) %}
    {{ return(hw_hook(adapter.strategy_of(settings), 'affected_keys_sql')(sql, plan, settings)) }}
{% endmacro %}


{% macro hw_store_affected_keys(target, sql, plan, settings) %}
    {%- set stored = hw_store_part(target, 'keys', hw_affected_keys_sql(sql, plan, settings), plan) -%}
    {{ return({'gap': stored.gap, 'known_keys': 'select * from ' ~ stored.relation, 'are_stored': true}) }}
{% endmacro %}


{#- Stores, of each input through which others are led to the key, the rows of the affected keys, with the columns that are used: its
    `rows_at_hand` from then on. They are read for the model's rows and for each input that it leads to. Runs a statement for each. -#}
{% macro hw_store_leading_rows(target, sql, affected, plan, known) %}
    {%- for spec in affected if not spec.via and spec.source in affected | map(attribute='via') -%}
        {%- set rows = hw_leading_rows_sql(spec, hw_leading_columns(spec, sql, affected, plan), affected, known) -%}
        {%- do spec.update({'rows_at_hand': hw_store_part(target, 'rows' ~ loop.index, rows, plan).relation}) -%}
    {%- endfor -%}
{% endmacro %}


{#- What the model's SQL uses of the input, and what leads to its own key and to those of others. -#}
{% macro hw_leading_columns(spec, sql, affected, plan) %}
    {%- set used = spec.key.values() | list -%}
    {%- for other in affected if other.via == spec.source -%}{%- do used.extend(other.on.values()) -%}{%- endfor -%}
    {%- set columns = spec.columns or hw_columns_at(spec.source, spec.version) -%}
    {%- set every = columns | map(attribute='name') | list -%}
    {%- do used.extend(adapter.used_columns(sql, plan.inputs, spec.text, every)) -%}
    {%- set names = [] -%}
    {%- for name in every if name | lower in used | map('lower') -%}{%- do names.append(name) -%}{%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{% macro hw_leading_rows_sql(spec, columns, affected, known) -%}
with _touched as (
{{ known.known_keys }}
)
select {{ hw_quoted(columns) | join(', ') }} from {{ hw_input_of_keys_sql(spec, affected, '_touched', known.bounds) }}
{%- endmacro %}
