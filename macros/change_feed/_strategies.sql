{#- For each strategy: the SQL of a full refresh, and the SQL that stages what an incremental run changes in the target, as the
    target's columns and `_operation` (`insert`, `update` or `delete`), one row a key. None of these macros runs anything. -#}

{% macro _full_refresh_sql(strategy, sql, settings, columns=none) %}
    {%- if strategy == 'change_feed' and settings.get('latest_by') -%}
        {{ return(_latest_rows_sql(sql, settings)) }}
    {%- elif strategy == 'signed_sum' -%}
        {{ return(_signed_result_sql(sql, settings, columns)) }}
    {%- elif strategy == 'history' -%}
        {%- set spec = (_inputs_of(sql) | selectattr('kind', 'equalto', 'images') | list)[0] -%}
        {{ return(_periods_sql(_with_inputs(sql, {spec.text: _all_images(spec)}), settings)) }}
    {%- endif -%}
    {{ return(sql) }}
{% endmacro %}


{#- The greatest row of each key by `latest_by`; rows equal in those columns are told apart by the rest of the row, so that the
    result does not depend on the order of reading. -#}
{% macro _latest_rows_sql(sql, settings) %}
    {{ return(
        'select inline(array(_latest._row)) from (select max(struct(' ~ _quoted(settings.get('latest_by')) | join(', ')
        ~ ', struct(*) as _row)) as _latest from (\n' ~ sql ~ '\n) group by ' ~ _quoted(settings.get('unique_key')) | join(', ') ~ ')'
    ) }}
{% endmacro %}


{% macro _quoted(columns, alias=none) %}
    {%- set quoted = [] -%}
    {%- for column in _as_list(columns) -%}
        {%- do quoted.append((alias ~ '.' if alias else '') ~ _quote(column)) -%}
    {%- endfor -%}
    {{ return(quoted) }}
{% endmacro %}


{#- Columns that a setting names, in the letters that the model has: Delta does not find a column to cluster by in others. -#}
{% macro _spelled(names, columns) %}
    {%- set spelled = [] -%}
    {%- for name in _as_list(names) -%}
        {%- set same = namespace(name=name) -%}
        {%- for column in columns if column.name | lower == name | lower -%}{%- set same.name = column.name -%}{%- endfor -%}
        {%- do spelled.append(same.name) -%}
    {%- endfor -%}
    {{ return(spelled) }}
{% endmacro %}


{% macro _stage_sql(strategy, target, sql, plan, settings, columns, bounds) %}
    {%- if strategy == 'change_feed' -%}
        {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'changes') | list)[0] -%}
        {%- set range = plan.ranges[spec.source] -%}
        {%- set appeared = _with_inputs(sql, {spec.text: _net_rows(range, spec.source, 1)}) -%}
        {%- if not settings.get('latest_by') and range.inserts_only -%}
            {{ return('select *' ~ _before_sql(settings) ~ ", 'insert' as _operation from (\n" ~ appeared ~ '\n)') }}
        {%- elif not settings.get('latest_by') -%}
            {{ return(_difference_sql(appeared, _with_inputs(sql, {spec.text: _net_rows(range, spec.source, -1)}), settings)) }}
        {%- elif range.inserts_only -%}
            {{ return(_newer_rows_sql(target, _latest_rows_sql(appeared, settings), settings, bounds)) }}
        {%- endif -%}
        {#- rows that were updated or disappeared: what `prune_by` says of a key need not hold for what the target has of it -#}
        {%- set keys = _as_list(settings.get('unique_key')) -%}
        {%- set bounds = bounds[:keys | length] -%}
        {{ return(_recomputed_sql(target, _touched_sql(strategy, sql, plan, settings), keys, _latest_rows_sql(
            'select _all.* from (\n' ~ sql ~ '\n) as _all left semi join _touched on ' ~ equals(keys, '_all', '_touched'), settings
        ), settings, bounds)) }}
    {%- elif strategy == 'affected_keys' -%}
        {{ return(_affected_sql(target, sql, plan, settings, bounds)) }}
    {%- elif strategy == 'signed_sum' -%}
        {{ return(_signed_sql(target, sql, plan, settings, columns)) }}
    {%- elif strategy == 'history' -%}
        {{ return(_history_sql(target, sql, plan, settings)) }}
    {%- endif -%}
{% endmacro %}


{#- Rows that appeared and rows that disappeared, by key: what only appeared is inserted, what only disappeared is deleted, what did
    both is updated unless it is the same row. -#}
{% macro _difference_sql(appeared, disappeared, settings) %}
    {%- set keys = _as_list(settings.get('unique_key')) -%}
    {{ return(
        'with _appeared as (select struct(*) as _row, ' ~ _quoted(keys) | join(', ') ~ ' from (\n' ~ appeared ~ '\n)),\n'
        ~ '_disappeared as (select struct(*) as _row, ' ~ _quoted(keys) | join(', ') ~ ' from (\n' ~ disappeared ~ '\n))\n'
        ~ _classified_sql('_appeared', '_disappeared', keys, settings)
    ) }}
{% endmacro %}


{#- `new` and `old` each have `_row` and the key columns; every key's change from old to new, without the rows that stay the same. Of a key
    that comes more than once all rows are kept, or the one that is new would replace the one that stays: `_apply_stage` refuses them. -#}
{% macro _classified_sql(new, old, keys, settings) %}
    {{ return(
        'select inline(array(coalesce(_new._row, _old._row)))' ~ _before_sql(settings, '_old._row') ~ ', '
        ~ "case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end as _operation\n"
        ~ 'from (select *, count(*) over (partition by ' ~ _quoted(keys) | join(', ') ~ ') as _copies from ' ~ new ~ ') as _new full outer join ' ~ old ~ ' as _old on ' ~ equals(keys, '_new', '_old') ~ '\n'
        ~ 'where not (_new._row <=> _old._row) or _new._copies > 1'
    ) }}
{% endmacro %}


{#- Columns that say where in the target a row lies, besides its key: what the table is partitioned or clustered by, and `prune_by`. None
    where the old rows are computed, not read, and may by the model's own leave be others than the target has. -#}
{% macro _prune_columns(settings) %}
    {%- set columns = [] -%}
    {%- if settings.incremental_strategy == 'change_feed' and not settings.get('latest_by')
        and (settings.get('allow_nondeterministic') or settings.get('on_lookup_change') == 'ignore') -%}
        {{ return(columns) }}
    {%- endif -%}
    {%- for column in _as_list(settings.get('partition_by')) + _as_list(settings.get('cluster_by')) + _as_list(settings.get('prune_by'))
        if column | lower not in (columns + _as_list(settings.get('unique_key'))) | map('lower') -%}
        {%- do columns.append(column) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Where the row that a change replaces lay, as columns `_before_1`, … of the stage: its own values, not the new row's, so that a row
    that moved is found where it was. Without a `row` that is replaced, where the new one lies. -#}
{% macro _before_sql(settings, row=none) %}
    {%- set columns = [] -%}
    {%- for column in _prune_columns(settings) -%}
        {%- do columns.append(', ' ~ (row ~ '.' if row else '') ~ _quote(column) ~ ' as _before_' ~ loop.index) -%}
    {%- endfor -%}
    {{ return(columns | join) }}
{% endmacro %}


{#- The winners of a batch against the rows that the target has: only a greater row replaces one. -#}
{% macro _newer_rows_sql(target, winners, settings, bounds) %}
    {%- set keys = _as_list(settings.get('unique_key')) -%}
    {%- set order = _as_list(settings.get('latest_by')) -%}
    {{ return(
        'with _winners as (select struct(*) as _row, * from (\n' ~ winners ~ '\n)),\n'
        ~ '_present as (select struct(*) as _row, * from ' ~ target ~ ' as _target where ' ~ _within_bounds(bounds, '_target') ~ ')\n'
        ~ 'select inline(array(_new._row))' ~ _before_sql(settings, '_old._row') ~ ", if(_old._row is null, 'insert', 'update') as _operation\n"
        ~ 'from _winners as _new left join _present as _old on ' ~ equals(keys, '_new', '_old') ~ '\n'
        ~ 'where _old._row is null or struct(' ~ _quoted(order, '_new') | join(', ') ~ ', _new._row) > struct(' ~ _quoted(order, '_old') | join(', ') ~ ', _old._row)'
    ) }}
{% endmacro %}


{#- Everything of the touched keys computed anew, against the rows that the target has of them. `recomputed` may use `_touched`. -#}
{% macro _recomputed_sql(target, touched, key, recomputed, settings, bounds) %}
    {%- set unique_key = _as_list(settings.get('unique_key')) -%}
    {{ return(
        'with _touched as (\n' ~ touched ~ '\n),\n'
        ~ '_recomputed as (select struct(*) as _row, ' ~ _quoted(unique_key) | join(', ') ~ ' from (\n' ~ recomputed ~ '\n)),\n'
        ~ '_present as (select struct(_target.*) as _row, ' ~ _quoted(unique_key, '_target') | join(', ') ~ ' from ' ~ target
        ~ ' as _target left semi join _touched on ' ~ equals(key, '_target', '_touched') ~ ' where ' ~ _within_bounds(bounds, '_target') ~ ')\n'
        ~ _classified_sql('_recomputed', '_present', unique_key, settings)
    ) }}
{% endmacro %}


{#- The keys that the changes touch, as rows of the key's columns in the model: what a run computes anew. None where a run computes
    nothing anew but adds or compares rows. -#}
{% macro _touched_sql(strategy, sql, plan, settings) %}
    {%- set touched = [] -%}
    {%- if strategy == 'change_feed' and settings.get('latest_by') -%}
        {%- do touched.append(_changed_rows_sql(sql, plan, _touched_columns(strategy, plan, settings))) -%}
    {%- elif strategy == 'affected_keys' -%}
        {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
        {%- for spec in affected if spec.source in plan.ranges and plan.ranges[spec.source].rows > 0 -%}
            {%- set range = plan.ranges[spec.source] -%}
            {%- set feed = _feed_of_range(spec.source, range) -%}
            {%- if spec.via -%}
                {%- do touched.append('select ' ~ _key_columns(spec, '_via') ~ ' from ' ~ _via_sql(spec, affected) ~ ' as _via left semi join ' ~ feed ~ ' as _feed on ' ~ equals(spec.on, '_via', '_feed')) -%}
            {%- else -%}
                {%- do touched.append('select ' ~ _key_columns(spec, '_feed') ~ ' from ' ~ feed ~ ' as _feed') -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return('select distinct * from (' ~ touched | join('\nunion all ') ~ ')' if touched else none) }}
{% endmacro %}


{#- The columns of `_touched`: the key of the affected() inputs; in a `latest_by` model its key, and what `prune_by` says that it determines. -#}
{% macro _touched_columns(strategy, plan, settings) %}
    {%- if strategy == 'affected_keys' -%}
        {{ return((plan.inputs | selectattr('kind', 'equalto', 'affected') | list)[0].key | list | sort) }}
    {%- endif -%}
    {%- set keys = _as_list(settings.get('unique_key')) -%}
    {%- set columns = keys | list -%}
    {%- for column in _as_list(settings.get('prune_by')) if column | lower not in columns | map('lower') -%}{%- do columns.append(column) -%}{%- endfor -%}
    {{ return(columns) }}
{% endmacro %}


{#- Some columns of the rows that a change_feed model's SQL gives for every image of the changes. -#}
{% macro _changed_rows_sql(sql, plan, columns) %}
    {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'changes') | list)[0] -%}
    {{ return('select ' ~ _quoted(columns) | join(', ') ~ ' from (\n' ~ _with_inputs(sql, {spec.text: _all_rows(plan.ranges[spec.source], spec.source)}) ~ '\n)') }}
{% endmacro %}


{#- An affected() input's key under the names that the model's columns have. -#}
{% macro _key_columns(spec, alias) %}
    {%- set columns = [] -%}
    {%- for name in spec.key | sort -%}
        {%- do columns.append(_key_value(spec, name, alias) ~ ' as ' ~ _quote(name)) -%}
    {%- endfor -%}
    {{ return(columns | join(', ')) }}
{% endmacro %}


{#- One column of it, as the model's table has it. Inputs without `stored` are those of a model that is not planned. -#}
{% macro _key_value(spec, name, alias) %}
    {%- set value = alias ~ '.' ~ _quote(spec.key[name]) -%}
    {{ return(_stored(value) if name in spec.get('stored', []) else value) }}
{% endmacro %}


{#- The input that leads from another one to the key, at its pinned version. -#}
{% macro _via_sql(spec, affected) %}
    {%- set via = (affected | selectattr('source', 'equalto', spec.via) | list)[0] -%}
    {{ return(via.source ~ ' version as of ' ~ via.version) }}
{% endmacro %}


{#- The touched keys computed anew, against the target's rows of them. A row of another key would not be computed anew when it changes. -#}
{% macro _affected_sql(target, sql, plan, settings, bounds) %}
    {%- set key = _touched_columns('affected_keys', plan, settings) -%}
    {%- set recomputed = 'select _model.* from (\n' ~ _of_keys_sql(sql, plan.inputs, '_touched', bounds) ~ '\n) as _model left join (select *, true as _is_touched from _touched) as _known on ' ~ equals(key, '_model', '_known')
        ~ '\nwhere if(_is_touched, true, raise_error(' ~ string_literal(_untouched_key_text(target, key)) ~ '))' -%}
    {{ return(_recomputed_sql(target, _touched_sql('affected_keys', sql, plan, settings), key, recomputed, settings, bounds)) }}
{% endmacro %}


{#- The model's SQL over some keys alone: every affected() input without the rows of other keys. `touched` is a relation of the key's columns,
    which goes by the name _touched; they lie within `bounds`. -#}
{% macro _of_keys_sql(sql, inputs, touched, bounds=[]) %}
    {%- set affected = inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- set restricted = {} -%}
    {%- for spec in affected -%}
        {%- set keyed = '_via' if spec.via else '_input' -%}
        {%- set conditions = [] -%}
        {%- for name in spec.key -%}
            {%- do conditions.append(_key_value(spec, name, keyed) ~ ' <=> _touched.' ~ _quote(name)) -%}
        {%- endfor -%}
        {#- what is NULL in the table may be an empty text in the input -#}
        {%- set known = [] -%}
        {%- for bound in bounds if not (bound.nulls and bound.column in spec.get('stored', [])) -%}{%- do known.append(bound) -%}{%- endfor -%}
        {%- set of_touched_keys = ' left semi join ' ~ touched ~ ' on ' ~ conditions | join(' and ') ~ ' where ' ~ _within_bounds(known, keyed, spec.key) -%}
        {%- if spec.via -%}
            {%- do restricted.update({spec.text: '(select _input.* from ' ~ _input_sql(spec) ~ ' as _input left semi join (select _via.* from ' ~ _via_sql(spec, affected)
                ~ ' as _via' ~ of_touched_keys ~ ') as _via on ' ~ equals(spec.on, '_input', '_via') ~ ')'}) -%}
        {%- else -%}
            {%- do restricted.update({spec.text: '(select _input.* from ' ~ _input_sql(spec) ~ ' as _input' ~ of_touched_keys ~ ')'}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(_with_inputs(sql, restricted)) }}
{% endmacro %}


{% macro _untouched_key_text(target, key) %}
    {%- set names = key | join(', ') -%}
    {{ return(target ~ ' has a row of ' ~ names ~ ' that comes from no row of an affected() input with that value, so no change of theirs leads to it. Select ' ~ names
        ~ ' from them as it is, and mark a table that all keys come from with affected(), not lookup().') }}
{% endmacro %}


{#- Sums by key from signed rows. A measure over no value at all is 0, which is what a sum of differences can tell; `derived` columns
    are computed from the sums. -#}
{% macro _signed_columns(columns, settings) %}
    {%- set keys = _as_list(settings.get('unique_key')) -%}
    {%- set others = (keys + settings.get('derived', {}) | list) | map('lower') | list -%}
    {%- set measures = [] -%}
    {%- for column in columns if column.name | lower not in others -%}
        {%- if column.dtype in ['double', 'float'] -%}
            {{ exceptions.raise_compiler_error(
                "signed_sum adds differences to what is there, and floating-point sums depend on the order of adding: "
                ~ column.name ~ " is a " ~ column.dtype ~ ". Cast what is summed, before it is summed, to a decimal or an integer."
            ) }}
        {%- elif column.dtype.split('(')[0] not in ['tinyint', 'smallint', 'int', 'bigint', 'decimal'] -%}
            {{ exceptions.raise_compiler_error(
                "signed_sum keeps sums and counts: " ~ column.name ~ " is a " ~ column.dtype ~ ". Put it into unique_key, or into derived where it is computed from the sums."
            ) }}
        {%- endif -%}
        {%- do measures.append(column) -%}
    {%- endfor -%}
    {{ return(measures) }}
{% endmacro %}


{% macro _signed_result_sql(sql, settings, columns) %}
    {%- set expressions = _quoted(_spelled(settings.get('unique_key'), columns)) -%}
    {%- for measure in _signed_columns(columns, settings) -%}
        {%- do expressions.append('coalesce(' ~ _quote(measure.name) ~ ', 0) as ' ~ _quote(measure.name)) -%}
    {%- endfor -%}
    {{ return(_with_derived_sql('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n)', settings)) }}
{% endmacro %}


{% macro _with_derived_sql(sql, settings) %}
    {%- set expressions = ['*'] -%}
    {%- for name, expression in settings.get('derived', {}).items() -%}
        {%- do expressions.append(expression ~ ' as ' ~ _quote(name)) -%}
    {%- endfor -%}
    {{ return('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n)') }}
{% endmacro %}


{#- The measure that counts rows: a group is gone when it is 0. -#}
{% macro _weight_column(sql) %}
    {%- set found = adapter.weight_column(sql) -%}
    {%- if not found -%}
        {{ exceptions.raise_compiler_error("A signed_sum model needs `sum(_weight) as <name>` among its columns: the count of rows tells when a group is gone") }}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}


{#- The sums of the changed rows, added to the table's. A group without rows is deleted, unless the SQL gives it over no rows as well: without
    `group by` there is one group, always. -#}
{% macro _signed_sql(target, sql, plan, settings, columns) %}
    {%- set keys = _spelled(settings.get('unique_key'), columns) -%}
    {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'signed') | list)[0] -%}
    {%- set delta = _with_inputs(sql, {spec.text: _weighed_rows(plan.ranges[spec.source], spec.source)}) -%}
    {%- set sums = _quoted(keys, '_delta') -%}
    {%- set moved = [] -%}
    {%- for measure in _signed_columns(columns, settings) -%}
        {%- set name = _quote(measure.name) -%}
        {%- do sums.append('cast(coalesce(_target.' ~ name ~ ', 0) + coalesce(_delta.' ~ name ~ ', 0) as ' ~ measure.dtype ~ ') as ' ~ name) -%}
        {%- do moved.append('coalesce(_delta.' ~ name ~ ', 0) <> 0') -%}
    {%- endfor -%}
    {%- set weight = _quote(_weight_column(sql)) -%}
    {%- set delta = _one_sum_a_key_sql(delta, keys, settings, columns) -%}
    {{ return(_with_derived_sql(
        'select ' ~ sums | join(', ') ~ _before_sql(settings, '_target') ~ ", if(_target._here is null, 'insert', if(coalesce(_target." ~ weight
        ~ ', 0) + coalesce(_delta.' ~ weight ~ ", 0) = 0 and _lasting._stays is null, 'delete', 'update')) as _operation\n"
        ~ 'from (\n' ~ delta ~ '\n) as _delta left join (select *, true as _here from ' ~ target ~ ') as _target on ' ~ equals(keys, '_delta', '_target') ~ '\n'
        ~ 'left join ' ~ _lasting_groups_sql(sql, plan.inputs, keys) ~ ' as _lasting on ' ~ equals(keys, '_delta', '_lasting') ~ '\n'
        ~ 'where ' ~ moved | join(' or '),
        settings
    )) }}
{% endmacro %}


{#- Sums of two groups that are one key once stored, the empty text's and NULL's, as one: they change one row. -#}
{% macro _one_sum_a_key_sql(sql, keys, settings, columns) %}
    {%- if not _partitions_among(keys, settings) -%}{{ return(sql) }}{%- endif -%}
    {%- set expressions = _quoted(keys) -%}
    {%- for measure in _signed_columns(columns, settings) -%}
        {%- do expressions.append('sum(' ~ _quote(measure.name) ~ ') as ' ~ _quote(measure.name)) -%}
    {%- endfor -%}
    {{ return('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n) group by ' ~ _quoted(keys) | join(', ')) }}
{% endmacro %}


{#- The keys of the groups that a model gives over inputs without rows, as a subquery with the column `_stays`. Spark sees that it reads nothing. -#}
{% macro _lasting_groups_sql(sql, inputs, keys) %}
    {{ return('(select ' ~ _quoted(keys) | join(', ') ~ ', true as _stays from (\n' ~ _with_inputs(sql, _without_rows(inputs)) ~ '\n))') }}
{% endmacro %}


{#- Replacements for inputs that have no rows. -#}
{% macro _without_rows(inputs) %}
    {%- set replacements = {} -%}
    {%- for spec in inputs -%}{%- do replacements.update({spec.text: '(select * from ' ~ _input_sql(spec) ~ ' where false)'}) -%}{%- endfor -%}
    {{ return(replacements) }}
{% endmacro %}
