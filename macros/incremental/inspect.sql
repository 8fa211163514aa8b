{#- Everything that the rest of the run needs to know of a change set: counts, where its rows are in the target, and
    whether its columns are still the target's. `bounds` are those that the change set was compared within, keys first:
    `misplaced` counts the keys that look new there and lie in the target beyond, where `prune_by` promised that they
    would not. -#}
{% macro hw_inspect_staged(target, stage, keys, settings, bounds=[]) %}
    {%- set before = hw_before_names(settings) -%}
    {%- set row = run_query(hw_inspection_sql(target, stage, keys, before, hw_beside_names(settings), bounds)).rows[0] -%}
    {%- set staged = row['staged'] | int -%}
    {%- set bounds = adapter.bounds_of(row, keys + before) -%}
    {%- set key_bounds, before_bounds = bounds[:keys | length], bounds[keys | length:] -%}
    {%- if staged <= 1000 -%}
        {%- set key_bounds = [adapter.with_values(key_bounds[0], row['some_keys'])] + key_bounds[1:] -%}
    {%- endif -%}
    {%- set names = dict(zip(before, hw_prune_columns(settings))) -%}
    {{ return({
        'rows': staged, 'inserted': row['inserted'] | int, 'updated': row['updated'] | int,
        'deleted': row['deleted'] | int, 'bytes': row['bytes'] | int,
        'distinct': row['distinct_keys'] | int, 'misplaced': row['misplaced'] | int,
        'nulls': key_bounds | map(attribute='nulls') | list,
        'within': adapter.within_bounds(key_bounds + before_bounds, '_target', names),
        'within_keys': adapter.within_bounds(key_bounds, '_target'),
        'stage_type': row['stage_type'], 'target_type': row['target_type'],
    }) }}
{% endmacro %}


{#- Counts and describes the rows of a change set; lists some of their keys. Distinct keys beside other aggregates would make Spark
    keep all of those for each key: they are counted apart. -#}
{% macro hw_inspection_sql(target, stage, keys, before, beside, bounds) -%}
    {%- set key = hw_quote(keys[0]) -%}
select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct({{ hw_quoted(keys) | join(', ') }})) from {{ stage }}) as distinct_keys,
{{ hw_bytes_and_types_sql(target, beside) }},
    {%- if bounds | length > keys | length %}
(select count(*) from {{ target }} as t left semi join {{ stage }} as s on s._operation = 'insert' and {{ hw_equals(keys, 't', 's') }}
where {{ adapter.within_bounds(bounds[:keys | length], 't') }} and ({{ adapter.within_bounds(bounds[keys | length:], 't') }}) is not true)
    {%- else %}
0
    {%- endif %} as misplaced,

(select {{ hw_values_as_json(key) }} from (select {{ key }} from {{ stage }} limit 1000)) as some_keys,
{{ hw_bounds_expressions(keys + before) }}
from {{ stage }}
{%- endmacro %}


{#- How large the files of a staging table are, and the types of its columns and of the table's. -#}
{% macro hw_bytes_and_types_sql(target, beside) -%}
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except ({{ beside | join(', ') }})))) as stage_type,
{{ hw_type_of('select * from ' ~ target) }} as target_type
{%- endmacro %}


{#- Keys as a message shows them: in one line, as text that is text. -#}
{% macro hw_keys_as_text(keys) %}
    {%- set shown = [] -%}
    {%- for key in hw_quoted(keys) -%}
        {%- set text = 'cast(' ~ key ~ ' as string)' -%}
        {%- do shown.append("coalesce(if(typeof(" ~ key ~ ") = 'binary', concat('0x', hex(" ~ text
            ~ ')), regexp_replace(make_valid_utf8(left(' ~ text ~ ", 100)), '[\\\\p{Cc}\\\\p{Zl}\\\\p{Zp}]', ' ')), 'None')") -%}
    {%- endfor -%}
    {{ return(shown) }}
{% endmacro %}


{#- Whether it is worth asking for keys that come twice, which takes much longer than this. Texts are told apart by a hash of 64 bits. Where
    one of the key columns is an integer, 64 of its values are one group with a bit for each, and a group that counts more rows than bits
    has a key twice: keys that lie close, as most do, make few groups. -#}
{% macro hw_may_repeat_keys(keys, columns, sql) %}
    {%- set names = keys | map('lower') | list -%}
    {%- set integers, others = [], [] -%}
    {%- for column in columns if column.name | lower in names -%}
        {%- do (integers if hw_is_integer(column.dtype) else others).append(column) -%}
    {%- endfor -%}
    {%- set types = others | map(attribute='dtype') | list -%}
    {%- set is_hashed = 'string' in types and types | reject('in', hw_hashed_types()) | list | length == 0 -%}
    {%- if not integers and not is_hashed -%}{{ return(true) }}{%- endif -%}
    {%- set grouped, at_most = hw_quoted(others | map(attribute='name') | list), 1 -%}
    {%- if is_hashed -%}{%- set grouped = ['xxhash64(' ~ grouped | join(', ') ~ ')'] -%}{%- endif -%}
    {%- if integers -%}
        {%- set number = 'cast(' ~ hw_quote(integers[-1].name) ~ ' as bigint)' -%}
        {%- set grouped = grouped + hw_quoted(integers[:-1] | map(attribute='name') | list) + ['shiftright(' ~ number ~ ', 6)'] -%}
        {%- set at_most = 'coalesce(bit_count(bit_or(shiftleft(1L, cast(' ~ number ~ ' & 63 as int)))), 1)' -%}
    {%- endif -%}
    {{ return(run_query(hw_crowded_keys_sql(sql, grouped, at_most)).rows | length > 0) }}
{% endmacro %}


{#- Types of which equal values have equal hashes: not floating-point numbers, nor texts with a collation. -#}
{% macro hw_hashed_types() %}
    {{ return(['string', 'binary', 'date', 'timestamp', 'timestamp_ntz', 'boolean']) }}
{% endmacro %}


{#- Finds a group of more rows than its keys can have. -#}
{% macro hw_crowded_keys_sql(sql, grouped, at_most) -%}
select 1 from (
{{ sql }}
) group by {{ grouped | join(', ') }}
having count(*) > {{ at_most }} limit 1
{%- endmacro %}


{#- What is said of keys that come twice; `%s` stands for examples. -#}
{% macro hw_repeated_keys_text(target, keys) %}
    {{ return(
        "unique_key " ~ keys | join(', ') ~ " of " ~ target ~ " is not unique: the model's SQL gives more than one row for %s"
        ~ ". The table was left as it is. Make the SQL give one row a key, or add the columns that tell the rows apart to unique_key."
    ) }}
{% endmacro %}


{#- The keys that come twice among rows: a relation, or a query in parentheses. -#}
{% macro hw_repeated_keys_sql(keys, rows) -%}
select {{ hw_quoted(keys) | join(', ') }} from {{ rows }} group by all having count(*) > 1
{%- endmacro %}


{% macro hw_examples_of_keys_sql(keys, query) -%}
select {{ hw_keys_as_text(keys) | join(', ') }} from (
{{ query }}
) limit 3
{%- endmacro %}


{#- Fails if the query finds a key, before anything is written. -#}
{% macro hw_refuse_repeated_keys(target, stage, keys, query) %}
    {%- set found = run_query(hw_examples_of_keys_sql(keys, query)).rows -%}
    {%- if found | length -%}
        {%- if stage -%}{%- do hw_drop_staging_table(stage) -%}{%- endif -%}
        {%- set examples = [] -%}
        {%- for row in found -%}{%- do examples.append(row.values() | join(', ')) -%}{%- endfor -%}
        {{ hw_raise('REPEATED_KEYS', hw_repeated_keys_text(target, keys) | replace('%s', examples | join('; '))) }}
    {%- endif -%}
{% endmacro %}


{#- SQL that computes its rows by key, which fails at a key that comes twice, in the statement that writes and before its commit. The rows
    of a key lie together already, so that counting them costs a sort; asking first would compute everything a second time. -#}
{% macro hw_one_row_a_key_sql(target, keys, sql) -%}
    {%- set text = ('[HW_REPEATED_KEYS] ' ~ hw_repeated_keys_text(target, keys)).split('%s') -%}
select * except (_copies) from (
select *, count(*) over (partition by {{ hw_quoted(keys) | join(', ') }}) as _copies from (
{{ sql }}
)
)
where if(_copies > 1, raise_error(concat({{ hw_literal(text[0]) }}, concat_ws(', ', {{ hw_keys_as_text(keys)
    | join(', ') }}), {{ hw_literal(text[1]) }})), true)
{%- endmacro %}
