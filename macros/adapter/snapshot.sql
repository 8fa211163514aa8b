{#- Replacements for dbt-spark's macros of snapshots. -#}

{#- Returns a relation's columns. dbt-spark's macro returns rows of DESCRIBE, so `hard_deletes: new_record` found no
    column of the table and wrote records of NULLs. -#}
{% macro headwaters__get_columns_in_relation(relation) %}
    {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}


{#- Adds columns to a snapshot, except dbt's own for a `unique_key` of several columns, which dbt-spark would add, and
    those that the table has in other letters: dbt compares names with their case, and Spark does not. -#}
{% macro headwaters__create_columns(relation, columns) %}
    {%- set added = [] -%}
    {%- set there = adapter.get_columns_in_relation(relation) | map(attribute='name') | map('lower') | list -%}
    {%- for column in columns if not hw_is_of_staging(column.name) and column.name | lower not in there -%}
        {%- do added.append(hw_quote(column.name) ~ ' ' ~ column.data_type) -%}
    {%- endfor -%}
    {%- if added -%}
        {%- do run_query('alter table ' ~ relation ~ ' add columns (' ~ added | join(', ') ~ ')') -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_is_of_staging(name) %}
    {{ return(name | lower == 'dbt_change_type' or (name | lower).startswith('dbt_unique_key')) }}
{% endmacro %}


{#- Merges a snapshot without three faults of dbt-spark:
    - It inserts `*`, which fails if the source has lost a column.
    - A row that returns with its old `updated_at` matches its closed record and would be lost: it gets a new id.
    - The record of such a row would begin before the deletion of the row: it begins at the time of the snapshot. -#}
{% macro headwaters__snapshot_merge_sql(target, source, insert_cols) %}
    {%- set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set scd_id, valid_from, valid_to = columns.dbt_scd_id, columns.dbt_valid_from, columns.dbt_valid_to -%}
    {%- set now = hw_snapshot_time(target, valid_from) -%}
    {%- set ends = hw_not_before('DBT_INTERNAL_SOURCE.' ~ valid_to, 'DBT_INTERNAL_DEST.' ~ valid_from, now) -%}
    {%- set computed = {scd_id | lower: '_scd_id', valid_from | lower: '_valid_from'} -%}
    {%- set names, values = [], [] -%}
    {%- for name in insert_cols if not hw_is_of_staging(name | replace('`', '')) -%}
        {%- do names.append(name) -%}
        {%- do values.append('DBT_INTERNAL_SOURCE.' ~ computed.get(name | replace('`', '') | lower, name)) -%}
    {%- endfor -%}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using (
        {{ hw_staged_records_sql(target, source, columns, now) }}
    ) as DBT_INTERNAL_SOURCE
    on
        DBT_INTERNAL_SOURCE.{{ scd_id }} = DBT_INTERNAL_DEST.{{ scd_id }}
        and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    when matched and {{ hw_is_open('DBT_INTERNAL_DEST.' ~ valid_to) }} then update set {{ valid_to }} = {{ ends }}
    when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert' then
        insert ({{ names | join(', ') }}) values ({{ values | join(', ') }})
{% endmacro %}


{#- Selects the staged changes, with the id and the start of each new record. -#}
{% macro hw_staged_records_sql(target, source, columns, now) -%}
    {%- set scd_id, valid_from, valid_to = columns.dbt_scd_id, columns.dbt_valid_from, columns.dbt_valid_to -%}
    {%- set unique_key = config.get('unique_key') -%}
        select
            _staged.*,
            if(
                array_contains(_present._ids, _staged.{{ scd_id }}),
                {{ snapshot_hash_arguments(['_staged.' ~ scd_id, snapshot_get_time()]) }},
                _staged.{{ scd_id }}
            ) as _scd_id,
            {{ hw_not_before('_staged.' ~ valid_from, '_present._last', now) }} as _valid_from
        from {{ source }} as _staged
        left join (
            select
                {{ unique_key_fields(unique_key) }},
                collect_set({{ scd_id }}) as _ids,
                max(if({{ hw_is_open(valid_to) }}, {{ valid_from }}, {{ valid_to }})) as _last
            from {{ target }}
            group by all
        ) as _present
            on _staged.dbt_change_type = 'insert' and {{ unique_key_join_on(unique_key, '_present', '_staged') }}
{%- endmacro %}


{% macro hw_is_open(valid_to) -%}
    {%- set until = config.get('dbt_valid_to_current') -%}
({{ valid_to }} is null{{ ' or ' ~ valid_to ~ ' = ' ~ until if until }})
{%- endmacro %}


{#- Returns the time of the snapshot in the type of its periods, or none if they are numbers or texts. -#}
{% macro hw_snapshot_time(target, valid_from) %}
    {%- for column in adapter.get_columns_in_relation(target) -%}
        {%- if column.name | lower == valid_from | lower and column.dtype in ['timestamp', 'timestamp_ntz', 'date'] -%}
            {{ return('cast(' ~ snapshot_get_time() ~ ' as ' ~ column.dtype ~ ')') }}
        {%- endif -%}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}


{% macro hw_not_before(value, start, now) %}
    {{ return('if(' ~ value ~ ' < ' ~ start ~ ', ' ~ now ~ ', ' ~ value ~ ')' if now else value) }}
{% endmacro %}


{#- Returns the query of a snapshot with the rows as its table has them: an empty text in a partition column is NULL. -#}
{% macro hw_snapshot_sql(sql) %}
    {{ return(adapter.analysis.as_stored(adapter.stock.without_end(sql), config.get('partition_by') or none)) }}
{% endmacro %}


{#- Checks the rows before dbt's macro selects the first records. -#}
{% macro headwaters__build_snapshot_table(strategy, sql) %}
    {%- set sql = hw_snapshot_sql(sql) -%}
    {%- do hw_check_snapshot(strategy, sql, none) -%}
    {{ return(dbt.default__build_snapshot_table(strategy, sql)) }}
{% endmacro %}


{#- Checks the rows before dbt's macro selects the changes. -#}
{% macro headwaters__snapshot_staging_table(strategy, source_sql, target_relation) %}
    {%- set source_sql = hw_snapshot_sql(source_sql) -%}
    {%- do hw_check_snapshot(strategy, source_sql, target_relation) -%}
    {{ return(dbt.default__snapshot_staging_table(strategy, source_sql, target_relation)) }}
{% endmacro %}


{#- scripts/headwaters/runs/snapshots.py decides. -#}
{% macro hw_check_snapshot(strategy, sql, target) %}
    {%- set given, held = [], [] -%}
    {%- if target -%}
        {%- set given = adapter.stock.columns_of(run_query('describe query\n' ~ sql).rows) -%}
        {%- set held = adapter.get_columns_in_relation(target) -%}
    {%- endif -%}
    {%- set keys = hw_as_list(strategy.unique_key) -%}
    {%- set rows = run_query(hw_unfit_rows_sql(sql, keys, strategy.updated_at)).rows -%}
    {%- set problems = adapter.snapshots.snapshot_problems(model, strategy, flags, given, held, rows) -%}
    {%- if problems -%}{%- do hw_raise_problems(problems) -%}{%- endif -%}
{% endmacro %}


{#- Selects a key that a snapshot cannot record: it is NULL, repeats, or has a row without a time. -#}
{% macro hw_unfit_rows_sql(sql, keys, updated_at) -%}
    {%- set names, unknown = [], [] -%}
    {%- for key in keys -%}
        {%- do names.append('_key_' ~ loop.index) -%}
        {%- do unknown.append('_key_' ~ loop.index ~ ' is null') -%}
    {%- endfor -%}
select
    concat_ws(', ', {{ hw_keys_as_text(names) | join(', ') }}) as row_key,
    count(*) as copies,
    {{ unknown | join(' or ') }} as lacks_key
from (
    select {% for key in keys %}{{ key }} as {{ names[loop.index0] }}, {% endfor %}{{ updated_at }} as _at
    from (
{{ sql }}
    )
)
group by {{ names | join(', ') }}
having count(*) > 1 or count(_at) < count(*) or {{ unknown | join(' or ') }}
limit 1
{%- endmacro %}


{#- Hashes dbt's text of the values, with escapes: without them, the keys ('a|', 'b') and ('a', '|b') would have one
    record. Values without these characters have dbt's hash. -#}
{% macro headwaters__snapshot_hash_arguments(args) -%}
    {%- set texts = [] -%}
    {%- for arg in args -%}
        {%- set text = 'cast(' ~ arg ~ ' as string)' -%}
        {%- set text = 'replace(' ~ text ~ ', ' ~ hw_literal('\\') ~ ', ' ~ hw_literal('\\\\') ~ ')' -%}
        {%- do texts.append('coalesce(replace(' ~ text ~ ", '|', " ~ hw_literal('\\|') ~ "), '')") -%}
    {%- endfor -%}
md5({{ texts | join(" || '|' || ") }})
{%- endmacro %}
