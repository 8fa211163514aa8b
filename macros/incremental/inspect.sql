{#- Queries about a staged change set, and about repeated keys. -#}

{#- Counts and describes the rows of a change set, and lists some of their keys. A separate subquery counts distinct
    keys, because Spark would otherwise keep all other aggregates for each key. -#}
{% macro hw_inspection_sql(target, stage, keys, before, beside, misplaced) -%}
    {%- set key = hw_quote(keys[0]) -%}
select count(*) as staged,
count_if(_operation = 'insert') as inserted,
count_if(_operation = 'update') as updated,
count_if(_operation = 'delete') as deleted,
(select count(distinct struct({{ hw_quoted(keys) | join(', ') }})) from {{ stage }}) as distinct_keys,
{{ hw_bytes_and_types_sql(target, beside) }},
{{ misplaced or 0 }} as misplaced,

(select {{ hw_values_as_json(key) }} from (select {{ key }} from {{ stage }} limit 1000)) as some_keys,
{{ hw_bounds_expressions(keys + before) }}
from {{ stage }}
{%- endmacro %}


{#- Counts the keys that look new within the bounds but are in the target beyond them. -#}
{% macro hw_misplaced_keys_sql(target, stage, keys, within, beyond) -%}
(select count(*) from {{ target }} as t left semi join {{ stage }} as s on s._operation = 'insert' and {{ hw_equals(keys, 't', 's') }}
where {{ within }} and ({{ beyond }}) is not true)
{%- endmacro %}


{#- Returns the size of a staging table's files, and the types of its columns and of the table's. -#}
{% macro hw_bytes_and_types_sql(target, beside) -%}
coalesce(aggregate(collect_set(struct(_metadata.file_path, _metadata.file_size)), 0L,
(total, file) -> total + file.file_size), 0L) as bytes,
typeof(any_value(struct(* except ({{ beside | join(', ') }})))) as stage_type,
{{ hw_type_of('select * from ' ~ target) }} as target_type
{%- endmacro %}


{#- Returns keys as text for a message, in one line; bytes that are not text are replaced. -#}
{% macro hw_keys_as_text(keys) %}
    {%- set shown = [] -%}
    {%- for key in hw_quoted(keys) -%}
        {%- set text = 'cast(' ~ key ~ ' as string)' -%}
        {%- do shown.append("coalesce(if(typeof(" ~ key ~ ") = 'binary', concat('0x', hex(" ~ text
            ~ ')), regexp_replace(make_valid_utf8(left(' ~ text ~ ", 100)), '[\\\\p{Cc}\\\\p{Zl}\\\\p{Zp}]', ' ')), 'None')") -%}
    {%- endfor -%}
    {{ return(shown) }}
{% endmacro %}


{#- Finds a group with more rows than its keys can have. -#}
{% macro hw_crowded_keys_sql(sql, grouped, at_most) -%}
select 1 from (
{{ sql }}
) group by {{ grouped | join(', ') }}
having count(*) > {{ at_most }} limit 1
{%- endmacro %}


{#- Returns the message about repeated keys; `%s` stands for examples. -#}
{% macro hw_repeated_keys_text(target, keys) %}
    {{ return(
        "unique_key " ~ keys | join(', ') ~ " of " ~ target ~ " is not unique: the model's SQL gives more than one row for %s"
        ~ ". The table was left as it is. Make the SQL give one row a key, or add the columns that tell the rows apart to unique_key."
    ) }}
{% endmacro %}


{#- Selects the repeated keys among rows: a relation, or a query in parentheses. -#}
{% macro hw_repeated_keys_sql(keys, rows) -%}
select {{ hw_quoted(keys) | join(', ') }} from {{ rows }} group by all having count(*) > 1
{%- endmacro %}


{% macro hw_examples_of_keys_sql(keys, query) -%}
select {{ hw_keys_as_text(keys) | join(', ') }} from (
{{ query }}
) limit 3
{%- endmacro %}


{#- Returns SQL that computes its rows by key and fails at a repeated key, in the writing statement and before its
    commit. The rows of a key are already together, so the count only costs a sort. A query before it would compute
    everything twice. -#}
{% macro hw_one_row_a_key_sql(keys, sql, message) -%}
    {%- set text = message.split('%s') -%}
select * except (_copies) from (
select *, count(*) over (partition by {{ hw_quoted(keys) | join(', ') }}) as _copies from (
{{ sql }}
)
)
where if(_copies > 1, raise_error(concat({{ hw_literal(text[0]) }}, concat_ws(', ', {{ hw_keys_as_text(keys)
    | join(', ') }}), {{ hw_literal(text[1]) }})), true)
{%- endmacro %}
