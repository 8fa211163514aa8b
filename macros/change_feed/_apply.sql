{#- From a staged change, which `look` knows, to the target, in one commit. Returns the counts; `refused` says why only a replacement
    would be right. `check_target`: the stage was not compared with the target, so make sure that keys which are new to the input are new
    to the target too. -#}
{% macro _apply_stage(target, stage, keys, settings, look, check_target) %}
    {%- if look.target_type != look.stage_type -%}
        {{ return(dict(look, refused='the columns changed')) }}
    {%- endif -%}
    {%- set present = namespace(rows=look.updated + look.deleted) -%}
    {%- if look.rows > look.distinct -%}
        {%- do _refuse_repeated_keys(target, stage, keys, 'select ' ~ _quoted(keys) | join(', ') ~ ' from ' ~ stage ~ ' group by all having count(*) > 1') -%}
    {%- elif look.inserted and check_target -%}
        {%- if look.has_keys -%}
            {%- set present.rows = run_query('select count(*) from ' ~ target ~ ' where ' ~ look.has_keys).rows[0][0] | int -%}
        {%- endif -%}
        {%- if not look.has_keys or present.rows != look.updated + look.deleted -%}
            {%- do _refuse_repeated_keys(target, stage, keys, 'select ' ~ _quoted(keys, 't') | join(', ') ~ ' from ' ~ target ~ ' as t left semi join ' ~ stage
                ~ " as s on s._operation = 'insert' and "  ~ equals(keys, 't', 's') ~ ' where ' ~ look.within_keys) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if look.rows > 0 and look.rows == look.inserted -%}
        {%- do run_query(_insert_sql(target, stage, settings)) -%}
    {%- elif look.rows > 0 and look.has_keys -%}
        {%- do run_query(_insert_sql(target, stage, settings, look.has_keys ~ look.lies_there)) -%}
        {%- if check_target and not look.inserted -%}
            {%- set present.rows = _rows_replaced(target, look.has_keys ~ look.lies_there) -%}
        {%- endif -%}
    {%- elif look.rows > 0 -%}
        {%- set present.rows = (run_query(_merge_sql(target, stage, keys, look)).rows[0]['num_affected_rows'] | int) - look.inserted -%}
    {%- endif -%}
    {%- if present.rows != look.updated + look.deleted -%}
        {{ return(dict(look, refused='the table did not have all the rows that changed')) }}
    {%- endif -%}
    {{ return(look) }}
{% endmacro %}


{#- Fails if the query finds a key, before anything is written. -#}
{% macro _refuse_repeated_keys(target, stage, keys, query) %}
    {%- set found = run_query('select ' ~ _shown(keys) | join(', ') ~ ' from (\n' ~ query ~ '\n) limit 3').rows -%}
    {%- if found | length -%}
        {%- if stage -%}{%- do _drop_stage(stage) -%}{%- endif -%}
        {%- set examples = [] -%}
        {%- for row in found -%}{%- do examples.append(row.values() | join(', ')) -%}{%- endfor -%}
        {{ exceptions.raise_compiler_error(_repeated_keys_text(target, keys) | replace('%s', examples | join('; '))) }}
    {%- endif -%}
{% endmacro %}


{#- Keys as a message shows them: in one line, as text that is text. -#}
{% macro _shown(keys) %}
    {%- set shown = [] -%}
    {%- for key in _quoted(keys) -%}
        {%- set text = 'cast(' ~ key ~ ' as string)' -%}
        {%- do shown.append("coalesce(if(typeof(" ~ key ~ ") = 'binary', concat('0x', hex(" ~ text ~ ')), regexp_replace(make_valid_utf8(left(' ~ text ~ ", 100)), '[\\\\p{Cc}\\\\p{Zl}\\\\p{Zp}]', ' ')), 'None')") -%}
    {%- endfor -%}
    {{ return(shown) }}
{% endmacro %}


{#- Whether it is worth asking for keys that come twice. Where one of the key columns is an integer, 64 of its values are one group with a bit
    for each, and a group that counts more rows than bits has a key twice: keys that lie close, as most do, make few groups, which is
    asked in a fraction of the time. -#}
{% macro _may_repeat_keys(keys, columns, sql) %}
    {%- set names = keys | map('lower') | list -%}
    {%- set integers = [] -%}
    {%- for column in columns if column.name | lower in names and _is_integer(column.dtype) -%}
        {%- do integers.append(column.name) -%}
    {%- endfor -%}
    {%- if not integers -%}{{ return(true) }}{%- endif -%}
    {%- set number = 'cast(' ~ _quote(integers[-1]) ~ ' as bigint)' -%}
    {%- set others = [] -%}
    {%- for key in keys if key | lower != integers[-1] | lower -%}{%- do others.append(_quote(key)) -%}{%- endfor -%}
    {{ return(run_query(
        'select 1 from (\n' ~ sql ~ '\n) group by ' ~ (others + ['shiftright(' ~ number ~ ', 6)']) | join(', ')
        ~ ' having count(*) > coalesce(bit_count(bit_or(shiftleft(1L, cast(' ~ number ~ ' & 63 as int)))), 1) limit 1'
    ).rows | length > 0) }}
{% endmacro %}


{#- What is said of keys that come twice; `%s` stands for examples. -#}
{% macro _repeated_keys_text(target, keys) %}
    {{ return(
        "unique_key " ~ keys | join(', ') ~ " of " ~ target ~ " is not unique: the model's SQL gives more than one row for %s"
        ~ ". The table was left as it is. Make the SQL give one row a key, or add the columns that tell the rows apart to unique_key."
    ) }}
{% endmacro %}


{#- SQL that computes its rows by key, which fails at a key that comes twice, in the statement that writes and before its commit. The rows
    of a key lie together already, so that counting them costs a sort; asking first would compute everything a second time. -#}
{% macro _one_row_a_key_sql(target, keys, sql) %}
    {%- set text = _repeated_keys_text(target, keys).split('%s') -%}
    {{ return(
        'select * except (_copies) from (\nselect *, count(*) over (partition by ' ~ _quoted(keys) | join(', ') ~ ') as _copies from (\n' ~ sql ~ '\n)\n)\nwhere if(_copies > 1, raise_error(concat('
        ~ string_literal(text[0]) ~ ", concat_ws(', ', " ~ _shown(keys) | join(', ') ~ '), ' ~ string_literal(text[1]) ~ ')), true)'
    ) }}
{% endmacro %}


{#- Everything that the rest of the run needs to know of a stage: counts, where its rows are in the target, and whether its columns are
    still the target's. `bounds` are those that the stage was compared within, keys first: `misplaced` counts the keys that look new there
    and lie in the target beyond, where `prune_by` promised that they would not. `detail` is the target's. -#}
{% macro _look_at(target, stage, keys, settings, detail, bounds=[]) %}
    {%- set before = _before_names(settings) -%}
    {%- set misplaced = '(select count(*) from ' ~ target ~ ' as t left semi join ' ~ stage ~ " as s on s._operation = 'insert' and " ~ equals(keys, 't', 's')
        ~ ' where ' ~ _within_bounds(bounds[:keys | length], 't') ~ ' and (' ~ _within_bounds(bounds[keys | length:], 't') ~ ') is not true)' -%}
    {#- distinct keys beside other aggregates would make Spark keep all of those for each key: they are counted apart -#}
    {%- set expressions = [
        'count(*) as staged', "count_if(_operation = 'insert') as inserted", "count_if(_operation = 'update') as updated",
        "count_if(_operation = 'delete') as deleted",
        '(select count(distinct struct(' ~ _quoted(keys) | join(', ') ~ ')) from ' ~ stage ~ ') as distinct_keys',
        'coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L, (total, file) -> total + file.file_size), 0L) as bytes',
        'typeof(any_value(struct(* except (' ~ (['_operation'] + before) | join(', ') ~ ')))) as stage_type',
        'typeof((select struct(*) from ' ~ target ~ ' limit 1)) as target_type',
        (misplaced if bounds | length > keys | length else '0') ~ ' as misplaced',
    ] -%}
    {%- set columns = keys + before -%}
    {%- set is_replaceable = _is_replaceable(keys, settings, detail) -%}
    {%- if is_replaceable -%}
        {%- set columns = columns + _prune_columns(settings) -%}
        {%- set key = _quote(keys[0]) -%}
        {%- do expressions.append('(select ' ~ _values_as_json(key) ~ ' from (select ' ~ key ~ ' from ' ~ stage ~ ' limit 1001)) as some_keys') -%}
    {%- endif -%}
    {%- set row = run_query('select ' ~ (expressions + _bounds_expressions(columns)) | join(', ') ~ ' from ' ~ stage).rows[0] -%}
    {%- set names = dict(zip(before, _prune_columns(settings))) -%}
    {%- set bounds = _bounds_of(row, columns) -%}
    {%- set distinct = row['distinct_keys'] | int -%}
    {#- where a row lay before, or lies now -#}
    {%- set lies_there = ' and (' ~ _within_bounds(bounds[1:1 + before | length], names=names, is_parsed_again=true) ~ ' or '
        ~ _within_bounds(bounds[1 + before | length:], is_parsed_again=true) ~ ')' -%}
    {{ return({
        'rows': row['staged'] | int, 'inserted': row['inserted'] | int, 'updated': row['updated'] | int, 'deleted': row['deleted'] | int, 'bytes': row['bytes'] | int,
        'distinct': distinct, 'misplaced': row['misplaced'] | int, 'nulls': bounds[:keys | length] | map(attribute='nulls') | list,
        'within': _within_bounds(bounds[:(keys + before) | length], 't', names), 'within_keys': _within_bounds(bounds[:keys | length], 't'),
        'stage_type': row['stage_type'], 'target_type': row['target_type'],
        'has_keys': adapter.has_keys(bounds[0], distinct, row['some_keys']) if is_replaceable else none,
        'lies_there': lies_there if before and is_replaceable else '',
    }) }}
{% endmacro %}


{% macro _before_names(settings) %}
    {%- set names = [] -%}
    {%- for column in _prune_columns(settings) -%}{%- do names.append('_before_' ~ loop.index) -%}{%- endfor -%}
    {{ return(names) }}
{% endmacro %}


{#- The staged rows as new rows; in place of those of the target that `replaced_where` describes, if it is given. A merge reads all columns
    of every file in which a changed row may lie; what a condition describes is found in the key's column, and marked as deleted. -#}
{% macro _insert_sql(target, stage, settings, replaced_where=none) %}
    {{ return(
        'insert into ' ~ target ~ " with ('userMetadata' = " ~ string_literal(adapter.signature(_run_id())) ~ ')' ~ (('\nreplace where ' ~ replaced_where ~ '\n') if replaced_where else ' ')
        ~ 'select * except (' ~ (['_operation'] + _before_names(settings)) | join(', ') ~ ') from ' ~ stage
        ~ (" where _operation <> 'delete'" if replaced_where else '')
    ) }}
{% endmacro %}


{% macro _is_integer(type) %}
    {{ return(type in ['tinyint', 'smallint', 'int', 'bigint']) }}
{% endmacro %}


{#- Whether rows of the target can be replaced by a condition on their key: where they are marked as deleted beside their files (deletion
    vectors), and the key is one column, within those files. Delta parses the condition again with its columns unquoted, and would
    take some words for something else. -#}
{% macro _is_replaceable(keys, settings, detail) %}
    {%- set words = ['current_path', 'false', 'from', 'not', 'null', 'select', 'true', 'values'] -%}
    {{ return(
        (_as_mapping(detail['properties']).get('delta.enableDeletionVectors', 'false') | lower) == 'true'
        and keys | length == 1 and keys[0] | lower not in _as_names(detail['partitionColumns']) | map('lower')
        and not (keys + _prune_columns(settings)) | map('lower') | select('in', words) | list
    ) }}
{% endmacro %}


{#- How many rows the replacement by a condition deleted that this run just made, after its note. Delta does not say it where nothing was inserted and
    only whole files went, and makes no commit where there was nothing to do. -#}
{% macro _rows_replaced(relation, condition) %}
    {%- set made = namespace(commit=none, noted=false) -%}
    {%- for commit in _history(relation, 10) if not made.noted -%}
        {%- set made.noted = commit.operation == 'SET TBLPROPERTIES' -%}
        {%- if commit.operation == 'WRITE' and commit.parameters.get('predicate') -%}{%- set made.commit = commit -%}{%- endif -%}
    {%- endfor -%}
    {%- if made.commit is none -%}
        {{ return(0) }}
    {%- elif 'numDeletedRows' in made.commit.metrics or made.commit.metrics.get('numRemovedFiles', 0) | int == 0 -%}
        {{ return(made.commit.metrics.get('numDeletedRows', 0) | int) }}
    {%- endif -%}
    {{ return(run_query('select count(*) from ' ~ relation ~ ' version as of ' ~ (made.commit.version - 1) ~ ' where ' ~ condition).rows[0][0] | int) }}
{% endmacro %}


{#- The keys are compared with `=` where the stage holds no null in them: a null-safe comparison costs a fifth more. MERGE takes no options, so its condition
    carries the run's name, as a comparison that is always true and that Spark cannot know to be. -#}
{% macro _merge_sql(target, stage, keys, look) %}
    {%- set conditions = [] -%}
    {%- for key in keys -%}
        {%- do conditions.append('t.' ~ _quote(key) ~ (' <=> ' if look.nulls[loop.index0] else ' = ') ~ 's.' ~ _quote(key)) -%}
    {%- endfor -%}
    {%- set clauses = [] -%}
    {%- if look.deleted -%}{%- do clauses.append("when matched and s._operation = 'delete' then delete") -%}{%- endif -%}
    {%- if look.updated -%}{%- do clauses.append('when matched then update set *') -%}{%- endif -%}
    {%- if look.inserted -%}{%- do clauses.append("when not matched and s._operation = 'insert' then insert *") -%}{%- endif -%}
    {{ return('merge into ' ~ target ~ ' as t using ' ~ stage ~ ' as s\non ' ~ conditions | join(' and ') ~ ' and ' ~ look.within
        ~ ' and s._operation <> ' ~ string_literal(adapter.signature(_run_id())) ~ '\n' ~ clauses | join('\n')) }}
{% endmacro %}
