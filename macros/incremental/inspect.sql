{#- Questions about a staged change set, and about keys that come twice. -#}

{#- Counts and describes the rows of a change set; lists some of their keys. Distinct keys beside other aggregates would make Spark
    keep all of those for each key: they are counted apart. -#}
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

{#- The keys that look new within the bounds and lie in the target beyond. -#}
{% macro hw_misplaced_keys_sql(target, stage, keys, within, beyond) -%}
(select count(*) from {{ target }} as t left semi join {{ stage }} as s on s._operation = 'insert' and {{ hw_equals(keys, 't', 's') }}
where {{ within }} and ({{ beyond }}) is not true)
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


{#- SQL that computes its rows by key, which fails at a key that comes twice, in the statement that writes and before its commit. The rows
    of a key lie together already, so that counting them costs a sort; asking first would compute everything a second time. -#}
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
