{#- Whether a strategy can keep a model up: by its text, before anything is read, and where the text does not tell, by some rows. -#}

{#- Where each row of the input makes its own rows of the model, where sums of weighed rows are all that is taken of them, or where no row of
    another key is looked at. Not asked where a lookup is read, which may well be summed up before it is joined. -#}
{% macro _check_linear(where, strategy, code, settings) %}
    {%- if strategy in ['affected_keys', 'history'] -%}
        {%- set found = modules.re.search('(?i)(?<![\\w.`])(over\\s*\\((?!\\s*(?:partition\\b|\\w+\\s*\\)))|window\\s+\\w+\\s+as\\s*\\((?!\\s*partition\\b)|(?:limit|offset)\\s+\\d+)', adapter.without_texts(code)) -%}
        {%- if found -%}
            {{ exceptions.raise_compiler_error(where ~ ' uses `' ~ found.group(1) ~ '`, whose result depends on rows of other keys, which are not computed anew. Partition by the key of '
                ~ ('affected()' if strategy == 'affected_keys' else 'the model') ~ ', or make it a table model.') }}
        {%- endif -%}
        {{ return('') }}
    {%- endif -%}
    {%- set refused = 'distinct(?!\\s+from)|having|limit(?=\\s+\\d)|offset(?=\\s+\\d)|over(?=\\s*\\()|intersect|union(?!\\s*all\\b)|except(?!\\s*\\(\\s*+(?!select\\b))|(?:count|avg|mean|min|max|first|last|any_value|median|collect_list|collect_set|array_agg|count_if|max_by|min_by|stddev|variance)(?=\\s*\\()' -%}
    {%- set refused = refused if strategy == 'signed_sum' else 'group\\s+by|(?:try_)?sum(?=\\s*\\()|' ~ refused -%}
    {%- set found = modules.re.search('(?i)(?<![\\w.`])(' ~ refused ~ ')(?![\\w`])', adapter.without_texts(code)) -%}
    {%- if found and strategy == 'change_feed' -%}
        {{ exceptions.raise_compiler_error(where ~ ' uses `' ~ found.group(1) ~ '`: a row of its result would depend on more than one row of the input. Use affected_keys, which computes whole keys anew'
            ~ (', or latest_by for the newest row of each key.' if not settings.get('latest_by') else '.')) }}
    {%- elif found -%}
        {{ exceptions.raise_compiler_error(where ~ ' uses `' ~ found.group(1) ~ '`, which cannot be kept up by adding. Sums of `… * _weight` and the count `sum(_weight)` can; averages go into derived; for the rest there is affected_keys.') }}
    {%- elif strategy == 'signed_sum' -%}
        {%- for sum in modules.re.finditer('(?i)\\b(?:try_)?sum\\s*\\(((?:[^()]|\\((?:[^()]|\\((?:[^()]|\\([^()]*\\))*\\))*\\))*)\\)', code) if not modules.re.search('(?<!\\w)_weight(?!\\w)', sum.group(1)) -%}
            {{ exceptions.raise_compiler_error(where ~ ' has sum(' ~ sum.group(1) | trim ~ ') without _weight, which would count rows that disappear as well. Write sum(' ~ sum.group(1) | trim ~ ' * _weight).') }}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- An incremental run puts the rows that changed where the input is named. What meets itself, in a join or a subquery, would meet the changed rows
    alone, and not all of them. Branches of `union all` do not meet. -#}
{% macro _check_read_once(where, sql, spec) %}
    {%- set code = adapter.without_texts(_with_inputs(sql, {spec.text: ' _followed_ '})) -%}
    {%- set reads = '(?i)\\b(?:from|join)\\s+`?(?:%s)`?(?![\\w.`(])' -%}
    {%- set followed = ['_followed_'] -%}
    {%- for cte in modules.re.finditer('(?i)(?:\\bwith|,)\\s*`?(\\w+)`?\\s+as\\s*\\(', code) -%}
        {%- set body = namespace(depth=1, end=none) -%}
        {%- for bracket in modules.re.finditer('[()]', code[cte.end():]) if body.end is none -%}
            {%- set body.depth = body.depth + (1 if bracket.group() == '(' else -1) -%}
            {%- if body.depth == 0 -%}{%- set body.end = cte.end() + bracket.start() -%}{%- endif -%}
        {%- endfor -%}
        {%- if modules.re.search(reads | replace('%s', followed | join('|')), code[cte.end():body.end]) -%}
            {%- do followed.append(cte.group(1)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set branches = modules.re.findall('(?i)\\bunion\\s+all\\b', code) | length + 1 -%}
    {%- for name in followed if modules.re.findall(reads | replace('%s', name), code) | length > branches -%}
        {{ exceptions.raise_compiler_error(where ~ ' reads ' ~ name ~ ', whose changes it follows, more than once. An incremental run would join the rows that changed with each other, and not with all '
            ~ 'rows. Use affected_keys, which computes whole keys anew.') }}
    {%- endfor -%}
{% endmacro %}


{#- Under `on_lookup_change: ignore` rows keep what lookups had when they were written, so a lookup must not say which rows and keys there are: a
    row whose lookup row was deleted could not be found when its input row is. Compares the keys of some rows of the input, all or those that
    changed, with the keys that the SQL gives where lookups have no rows. Returns why the changes cannot be read, or ''. -#}
{% macro _refuse_keys_of_lookups(strategy, target, sql, inputs, settings, plan=none) %}
    {%- set lookups = inputs | selectattr('kind', 'equalto', 'lookup') | list -%}
    {%- if not lookups or settings.get('on_lookup_change') != 'ignore' or strategy not in ['change_feed', 'history'] or lookups | selectattr('version', 'none') | list -%}
        {{ return('') }}
    {%- endif -%}
    {%- set keys = _quoted(settings.get('unique_key')) | join(', ') -%}
    {%- set followed = {} -%}
    {%- for spec in inputs if plan and spec.kind != 'lookup' -%}
        {%- set range = plan.ranges[spec.source] -%}
        {%- do followed.update({spec.text: _all_rows(range, spec.source) if strategy == 'change_feed' else _images_sql(spec, _feed_of_range(spec.source, range), _grouping(spec.source, spec.version))}) -%}
    {%- endfor -%}
    {%- set sides = [] -%}
    {%- for replacements, balance in [(followed, 1), (dict(followed, **_without_rows(lookups)), -1)] -%}
        {%- do sides.append('select ' ~ keys ~ ', ' ~ balance ~ ' as _balance from (\n' ~ _with_inputs(sql, replacements) ~ '\n)') -%}
    {%- endfor -%}
    {%- set query = 'select ' ~ keys ~ ' from (\n' ~ sides | join('\nunion all\n') ~ '\n) group by ' ~ keys ~ ' having sum(_balance) <> 0 limit 1' -%}
    {%- set reading = _read_changes(query, plan) if plan else run_query(query) -%}
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
{% macro _check_by_rows(strategy, target, sql, inputs, settings, columns) %}
    {%- set spec = _tried_input(strategy, inputs, settings) -%}
    {%- if not spec -%}
        {{ return('') }}
    {%- endif -%}
    {%- set sample = _stage_relation(target) -%}
    {%- set differences = _weighed_differences_sql(sql, inputs, spec, settings, columns, sample) if strategy == 'signed_sum' else _differences_of_halves_sql(sql, inputs, spec, columns, sample) -%}
    {%- set half = 'xxhash64(' ~ _quoted(spec.key.values()) | join(', ') ~ ')' if strategy == 'affected_keys' else 'monotonically_increasing_id()' -%}
    {%- do _create_stage(sample, 'select *, ' ~ half ~ ' % 2 = 0 as _in_half from ' ~ spec.source ~ ' version as of ' ~ spec.version ~ ' limit 1000') -%}
    {%- set found = run_query(differences).rows[0].dict() -%}
    {%- do _drop_stage(sample) -%}
    {%- for name, differs in found.items() if differs -%}
        {{ exceptions.raise_compiler_error(_difference_text(strategy, target, spec, name)) }}
    {%- endfor -%}
{% endmacro %}


{#- The input whose rows are tried; none where there is nothing to try. -#}
{% macro _tried_input(strategy, inputs, settings) %}
    {%- set kind = {'change_feed': 'changes', 'affected_keys': 'affected', 'signed_sum': 'signed'}.get(strategy) -%}
    {%- if strategy != 'signed_sum' and settings.get('allow_nondeterministic') or (strategy == 'change_feed' and 'lookup' not in inputs | map(attribute='kind')) -%}
        {{ return(none) }}
    {%- endif -%}
    {{ return(inputs | selectattr('kind', 'equalto', kind) | rejectattr('via') | rejectattr('version', 'none') | first | default(none)) }}
{% endmacro %}


{#- What is said of a difference; `name` is the column of the query that found it. -#}
{% macro _difference_text(strategy, target, spec, name) %}
    {%- if name == '_apart' and strategy == 'change_feed' -%}
        {{ return(target ~ ' gives other rows for ' ~ spec.source ~ ' as a whole than for one half of its rows and the other: a row of its result depends on more than one row of the input, '
            ~ 'or on none, as in an outer join that keeps all rows of a lookup. Use affected_keys, which computes whole keys anew.') }}
    {%- elif name == '_apart' -%}
        {{ return(target ~ ' gives other rows for some keys of ' ~ spec.source ~ ' at once than for one half of them and the other: a row of its result depends on rows of other keys, as in a subquery or a join '
            ~ 'that looks at all of them, or on chance, as in a rank where rows tie or a list without an order. Compute what spans keys in a model of its own and read it with lookup(), and order by columns that '
            ~ 'tell all rows apart; or say allow_nondeterministic if rows may keep the answer of the run that wrote them.') }}
    {%- elif name == '_elsewhere' -%}
        {{ return(_untouched_key_text(target, spec.key | list | sort)) }}
    {%- elif name == '_empty' -%}
        {{ return(target ~ ' gives groups that no row of ' ~ spec.source ~ ' stands behind, as an outer join that keeps all rows of a lookup does. Join inner, or use affected_keys.') }}
    {%- endif -%}
    {{ return(target ~ ': ' ~ name ~ ' cannot be kept up by adding: rows that disappear do not take away what they brought. It has to be a sum of `… * _weight`, and no more; averages and the like go into derived.') }}
{% endmacro %}


{#- One row: `_apart`, how many rows all of the sample gives and its halves do not, or the other way round, each side computed once, as in
    `_proof.sql`; and where keys are computed anew, `_elsewhere`, how many are of other keys than the sample's. Then floating-point columns are left
    out: a sum of theirs depends on the order of adding. -#}
{% macro _differences_of_halves_sql(sql, inputs, spec, columns, sample) %}
    {%- set key = (spec.key or {}) | list | sort -%}
    {%- set compared = [] -%}
    {%- for column in columns if not key or column.name | lower in key | map('lower') or not modules.re.search('\\b(double|float)\\b', column.dtype) -%}
        {%- do compared.append(_quote(column.name)) -%}
    {%- endfor -%}
    {%- set sides = [] -%}
    {%- for rows, balance in [('true', 1), ('_in_half', -1), ('not _in_half', -1)] -%}
        {%- set side = _with_inputs(sql, {spec.text: '(select * except (_in_half) from ' ~ sample ~ ' where ' ~ rows ~ ')'}) -%}
        {%- set elsewhere = 'false' -%}
        {%- if key -%}
            {%- set keys = '(select distinct ' ~ _key_columns(spec, '_input') ~ ', true as _is_touched from ' ~ sample ~ ' as _input where ' ~ rows ~ ')' -%}
            {%- set side = 'select _model.*, _is_touched from (\n' ~ _of_keys_sql(side, inputs, keys ~ ' as _touched') ~ '\n) as _model left join ' ~ keys ~ ' as _known on ' ~ equals(key, '_model', '_known') -%}
            {%- set elsewhere = '_is_touched is null' -%}
        {%- endif -%}
        {%- do sides.append('select ' ~ compared | join(', ') ~ ', ' ~ balance ~ ' as _balance, ' ~ elsewhere ~ ' as _stray from (\n' ~ side ~ '\n)') -%}
    {%- endfor -%}
    {{ return('select count_if(_strays) as _elsewhere, count_if(_net <> 0) as _apart from (select * except (_balance, _stray), sum(_balance) as _net, bool_or(_stray) as _strays from (\n'
        ~ sides | join('\nunion all\n') ~ '\n) group by all)') }}
{% endmacro %}


{#- One row: for each measure whether it is no sum of weighed rows, and `_empty`, whether there are groups without a row, other than those that
    are there always. -#}
{% macro _weighed_differences_sql(sql, inputs, spec, settings, columns, sample) %}
    {%- set keys = _as_list(settings.get('unique_key')) -%}
    {%- set sides = [] -%}
    {%- for weight in [1, -3] -%}
        {%- set side = _with_inputs(sql, {spec.text: '(select * except (_in_half), ' ~ weight ~ ' as _weight from ' ~ sample ~ ')'}) -%}
        {%- do sides.append('(select *, true as _here from (\n' ~ _one_sum_a_key_sql(side, keys, settings, columns) ~ '\n))') -%}
    {%- endfor -%}
    {%- set expressions = [] -%}
    {%- for measure in _signed_columns(columns, settings) -%}
        {%- set name = _quote(measure.name) -%}
        {%- do expressions.append('count_if(coalesce(_thrice.' ~ name ~ ', 0) <> -3 * coalesce(_once.' ~ name ~ ', 0)) as ' ~ name) -%}
    {%- endfor -%}
    {%- set lasting = _lasting_groups_sql(sql, inputs, keys) -%}
    {%- do expressions.append('count_if(_once._here and _lasting._stays is null and coalesce(_once.' ~ _quote(_weight_column(sql)) ~ ', 0) = 0) + (select count(*) from '
        ~ lasting ~ ' as _lasting left anti join ' ~ sides[0] ~ ' as _once on ' ~ equals(keys, '_lasting', '_once') ~ ') as _empty') -%}
    {{ return('select ' ~ expressions | join(', ') ~ '\nfrom ' ~ sides[0] ~ ' as _once full outer join ' ~ sides[1] ~ ' as _thrice on ' ~ equals(keys, '_once', '_thrice')
        ~ '\nleft join ' ~ lasting ~ ' as _lasting on ' ~ equals(keys, '_once', '_lasting')) }}
{% endmacro %}
