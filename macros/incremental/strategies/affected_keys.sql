{#- The touched keys computed anew, against the target's rows of them. A row of another key would not be computed anew when it changes. -#}
{% macro hw_affected_change_set_sql(target, sql, plan, settings, bounds) %}
    {%- set key = hw_affected_key_columns('affected_keys', plan, settings) -%}
    {%- set recomputed = 'select _model.* from (\n' ~ hw_of_keys_sql(sql, plan.inputs, '_touched', bounds) ~ '\n) as _model left join (select *, true as _is_touched from _touched) as _known on ' ~ hw_equals(key, '_model', '_known')
        ~ '\nwhere if(_is_touched, true, raise_error(' ~ hw_literal(hw_unaffected_key_text(target, key)) ~ '))' -%}
    {{ return(hw_recomputed_sql(target, hw_affected_keys_sql('affected_keys', sql, plan, settings), key, recomputed, settings, bounds)) }}
{% endmacro %}


{#- The model's SQL over some keys alone: every affected() input without the rows of other keys. `touched` is a relation of the key's columns,
    which goes by the name _touched; they lie within `bounds`. -#}
{% macro hw_of_keys_sql(sql, inputs, touched, bounds=[]) %}
    {%- set affected = inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- set restricted = {} -%}
    {%- for spec in affected -%}
        {%- set keyed = '_via' if spec.via else '_input' -%}
        {%- set conditions = [] -%}
        {%- for name in spec.key -%}
            {%- do conditions.append(hw_key_value(spec, name, keyed) ~ ' <=> _touched.' ~ hw_quote(name)) -%}
        {%- endfor -%}
        {#- what is NULL in the table may be an empty text in the input -#}
        {%- set known = [] -%}
        {%- for bound in bounds if not (bound.nulls and bound.column in spec.get('stored', [])) -%}{%- do known.append(bound) -%}{%- endfor -%}
        {%- set of_touched_keys = ' left semi join ' ~ touched ~ ' on ' ~ conditions | join(' and ') ~ ' where ' ~ hw_within_bounds(known, keyed, spec.key) -%}
        {%- if spec.via -%}
            {%- do restricted.update({spec.text: '(select _input.* from ' ~ hw_input_sql(spec) ~ ' as _input left semi join (select _via.* from ' ~ hw_via_sql(spec, affected)
                ~ ' as _via' ~ of_touched_keys ~ ') as _via on ' ~ hw_equals(spec.on, '_input', '_via') ~ ')'}) -%}
        {%- else -%}
            {%- do restricted.update({spec.text: '(select _input.* from ' ~ hw_input_sql(spec) ~ ' as _input' ~ of_touched_keys ~ ')'}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(hw_with_inputs(sql, restricted)) }}
{% endmacro %}


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


{#- The input that leads from another one to the key, at its pinned version. -#}
{% macro hw_via_sql(spec, affected) %}
    {%- set via = (affected | selectattr('source', 'equalto', spec.via) | list)[0] -%}
    {{ return(via.source ~ ' version as of ' ~ via.version) }}
{% endmacro %}


{% macro hw_unaffected_key_text(target, key) %}
    {%- set names = key | join(', ') -%}
    {{ return(target ~ ' has a row of ' ~ names ~ ' that comes from no row of an affected() input with that value, so no change of theirs leads to it. Select ' ~ names
        ~ ' from them as it is, and mark a table that all keys come from with affected(), not lookup().') }}
{% endmacro %}
