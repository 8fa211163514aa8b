{#- Under `on_lookup_change: ignore` rows keep what lookups had when they were written, so a lookup must not say which rows and keys there are: a
    row whose lookup row was deleted could not be found when its input row is. Compares the keys of some rows of the input, all or those that
    changed, with the keys that the SQL gives where lookups have no rows. Returns why the changes cannot be read, or ''. -#}
{% macro hw_refuse_keys_of_lookups(strategy, target, sql, inputs, settings, plan=none) %}
    {%- set lookups = inputs | selectattr('kind', 'equalto', 'lookup') | list -%}
    {%- if not lookups or settings.get('on_lookup_change') != 'ignore' or strategy not in ['change_feed', 'history'] or lookups | selectattr('version', 'none') | list -%}
        {{ return('') }}
    {%- endif -%}
    {%- set keys = hw_quoted(settings.get('unique_key')) | join(', ') -%}
    {%- set followed = {} -%}
    {%- for spec in inputs if plan and spec.kind != 'lookup' -%}
        {%- set range = plan.ranges[spec.source] -%}
        {%- do followed.update({spec.text: hw_all_rows(range, spec.source) if strategy == 'change_feed' else hw_images_sql(spec, hw_feed_of_range(spec.source, range), hw_grouping(spec.source, spec.version))}) -%}
    {%- endfor -%}
    {%- set sides = [] -%}
    {%- for replacements, balance in [(followed, 1), (dict(followed, **hw_without_rows(lookups)), -1)] -%}
        {%- do sides.append('select ' ~ keys ~ ', ' ~ balance ~ ' as _balance from (\n' ~ hw_with_inputs(sql, replacements) ~ '\n)') -%}
    {%- endfor -%}
    {%- set query = 'select ' ~ keys ~ ' from (\n' ~ sides | join('\nunion all\n') ~ '\n) group by ' ~ keys ~ ' having sum(_balance) <> 0 limit 1' -%}
    {%- set reading = hw_read_changes(query, plan) if plan else run_query(query) -%}
    {%- if plan and reading.gap -%}
        {{ return(reading.gap) }}
    {%- endif -%}
    {%- set found = reading.rows -%}
    {%- if found | length -%}
        {{ exceptions.raise_compiler_error(target ~ ' has on_lookup_change: ignore, and a lookup says which rows or keys it has, as for ' ~ found[0].values() | join(', ')
            ~ ': such a row could not be found when its input row is deleted. Join the lookup with left join and take unique_key from the input, or write on_lookup_change: rebuild.') }}
    {%- endif -%}
    {{ return('') }}
{% endmacro %}


{#- What the text does not tell is tried with a thousand rows of an input, when the SQL builds its first table, or another SQL than before:
    change_feed beside lookups, and affected_keys, over all of them, over one half and over the other; signed_sum once and weighed -3. -#}
{% macro hw_check_by_rows(strategy, target, sql, inputs, settings, columns) %}
    {%- set spec = hw_tried_input(strategy, inputs, settings) -%}
    {%- if not spec -%}
        {{ return('') }}
    {%- endif -%}
    {%- set sample = hw_staging_relation(target) -%}
    {%- set differences = hw_weighed_differences_sql(sql, inputs, spec, settings, columns, sample) if strategy == 'signed_sum' else hw_differences_of_halves_sql(sql, inputs, spec, columns, sample) -%}
    {%- set half = 'xxhash64(' ~ hw_quoted(spec.key.values()) | join(', ') ~ ')' if strategy == 'affected_keys' else 'monotonically_increasing_id()' -%}
    {%- do hw_create_staging_table(sample, 'select *, ' ~ half ~ ' % 2 = 0 as _in_half from ' ~ spec.source ~ ' version as of ' ~ spec.version ~ ' limit 1000') -%}
    {%- set found = run_query(differences).rows[0].dict() -%}
    {%- do hw_drop_staging_table(sample) -%}
    {%- for name, differs in found.items() if differs -%}
        {{ exceptions.raise_compiler_error(hw_difference_text(strategy, target, spec, name)) }}
    {%- endfor -%}
{% endmacro %}


{#- The input whose rows are tried; none where there is nothing to try. -#}
{% macro hw_tried_input(strategy, inputs, settings) %}
    {%- set kind = {'change_feed': 'changes', 'affected_keys': 'affected', 'signed_sum': 'signed'}.get(strategy) -%}
    {%- if strategy != 'signed_sum' and settings.get('allow_nondeterministic') or (strategy == 'change_feed' and 'lookup' not in inputs | map(attribute='kind')) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(inputs | selectattr('kind', 'equalto', kind) | rejectattr('via') | rejectattr('version', 'none') | first | default(none)) }}
{% endmacro %}


{#- What is said of a difference; `name` is the column of the query that found it. -#}
{% macro hw_difference_text(strategy, target, spec, name) %}
    {%- if name == '_apart' and strategy == 'change_feed' -%}
        {{ return(target ~ ' gives other rows for ' ~ spec.source ~ ' as a whole than for one half of its rows and the other: a row of its result depends on more than one row of the input, '
            ~ 'or on none, as in an outer join that keeps all rows of a lookup. Use affected_keys, which computes whole keys anew.') }}
    {%- elif name == '_apart' -%}
        {{ return(target ~ ' gives other rows for some keys of ' ~ spec.source ~ ' at once than for one half of them and the other: a row of its result depends on rows of other keys, as in a subquery or a join '
            ~ 'that looks at all of them, or on chance, as in a rank where rows tie or a list without an order. Compute what spans keys in a model of its own and read it with lookup(), and order by columns that '
            ~ 'tell all rows apart; or say allow_nondeterministic if rows may keep the answer of the run that wrote them.') }}
    {%- elif name == '_elsewhere' -%}
        {{ return(hw_unaffected_key_text(target, spec.key | list | sort)) }}
    {%- elif name == '_empty' -%}
        {{ return(target ~ ' gives groups that no row of ' ~ spec.source ~ ' stands behind, as an outer join that keeps all rows of a lookup does. Join inner, or use affected_keys.') }}
    {%- endif -%}
    {{ return(target ~ ': ' ~ name ~ ' cannot be kept up by adding: rows that disappear do not take away what they brought. It has to be a sum of `… * _weight`, and no more; averages and the like go into derived.') }}
{% endmacro %}


{#- One row: `_apart`, how many rows all of the sample gives and its halves do not, or the other way round, each side computed once, as in
    `_proof.sql`; and where keys are computed anew, `_elsewhere`, how many are of other keys than the sample's. Then floating-point columns are left
    out: a sum of theirs depends on the order of adding. -#}
{% macro hw_differences_of_halves_sql(sql, inputs, spec, columns, sample) %}
    {%- set key = (spec.key or {}) | list | sort -%}
    {%- set compared = [] -%}
    {%- for column in columns if not key or column.name | lower in key | map('lower') or not modules.re.search('\\b(double|float)\\b', column.dtype) -%}
        {%- do compared.append(hw_quote(column.name)) -%}
    {%- endfor -%}
    {%- set sides = [] -%}
    {%- for rows, balance in [('true', 1), ('_in_half', -1), ('not _in_half', -1)] -%}
        {%- set side = hw_with_inputs(sql, {spec.text: '(select * except (_in_half) from ' ~ sample ~ ' where ' ~ rows ~ ')'}) -%}
        {%- set elsewhere = 'false' -%}
        {%- if key -%}
            {%- set keys = '(select distinct ' ~ hw_key_columns(spec, '_input') ~ ', true as _is_touched from ' ~ sample ~ ' as _input where ' ~ rows ~ ')' -%}
            {%- set side = 'select _model.*, _is_touched from (\n' ~ hw_of_keys_sql(side, inputs, keys ~ ' as _touched') ~ '\n) as _model left join ' ~ keys ~ ' as _known on ' ~ hw_equals(key, '_model', '_known') -%}
            {%- set elsewhere = '_is_touched is null' -%}
        {%- endif -%}
        {%- do sides.append('select ' ~ compared | join(', ') ~ ', ' ~ balance ~ ' as _balance, ' ~ elsewhere ~ ' as _stray from (\n' ~ side ~ '\n)') -%}
    {%- endfor -%}
    {{ return('select count_if(_strays) as _elsewhere, count_if(_net <> 0) as _apart from (select * except (_balance, _stray), sum(_balance) as _net, bool_or(_stray) as _strays from (\n'
        ~ sides | join('\nunion all\n') ~ '\n) group by all)') }}
{% endmacro %}
