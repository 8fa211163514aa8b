{#- Replacements for dbt-spark's macros of snapshots. -#}

{#- Returns a relation's columns. dbt-spark's macro returns rows of DESCRIBE, so `hard_deletes: new_record` found no
    column of the table and wrote records of NULLs. -#}
{% macro headwaters__get_columns_in_relation(relation) %}
    {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}


{#- Adds columns to a snapshot, except dbt's own for a `unique_key` of several columns, which dbt-spark would add. -#}
{% macro headwaters__create_columns(relation, columns) %}
    {%- set added = [] -%}
    {%- for column in columns if not hw_is_of_staging(column.name) -%}
        {%- do added.append(hw_quote(column.name) ~ ' ' ~ column.data_type) -%}
    {%- endfor -%}
    {%- if added -%}
        {%- do run_query('alter table ' ~ relation ~ ' add columns (' ~ added | join(', ') ~ ')') -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_is_of_staging(name) %}
    {{ return(name | lower == 'dbt_change_type' or (name | lower).startswith('dbt_unique_key')) }}
{% endmacro %}


{#- Merges a snapshot without two faults of dbt-spark. It inserts `*`, which fails if the source has lost a column. If a
    row returns with its old `updated_at`, it matches the existing closed record, so the row would be lost. Here the
    record of such a row gets a new id. -#}
{% macro headwaters__snapshot_merge_sql(target, source, insert_cols) %}
    {%- set columns = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
    {%- set scd_id, valid_to, until = columns.dbt_scd_id, columns.dbt_valid_to, config.get('dbt_valid_to_current') -%}
    {%- set names, values = [], [] -%}
    {%- for name in insert_cols if not hw_is_of_staging(name | replace('`', '')) -%}
        {%- set is_id = name | replace('`', '') | lower == scd_id | replace('`', '') | lower -%}
        {%- do names.append(name) -%}
        {%- do values.append('DBT_INTERNAL_SOURCE.' ~ ('_scd_id' if is_id else name)) -%}
    {%- endfor -%}
    merge into {{ target }} as DBT_INTERNAL_DEST
    using (
        select
            _staged.*,
            if(
                _present._id is null, _staged.{{ scd_id }},
                {{ snapshot_hash_arguments(['_staged.' ~ scd_id, snapshot_get_time()]) }}
            ) as _scd_id
        from {{ source }} as _staged
        left join (select distinct {{ scd_id }} as _id from {{ target }}) as _present
            on _staged.dbt_change_type = 'insert' and _staged.{{ scd_id }} = _present._id
    ) as DBT_INTERNAL_SOURCE
    on
        DBT_INTERNAL_SOURCE.{{ scd_id }} = DBT_INTERNAL_DEST.{{ scd_id }}
        and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    when matched and (
        DBT_INTERNAL_DEST.{{ valid_to }} is null{{ ' or DBT_INTERNAL_DEST.' ~ valid_to ~ ' = ' ~ until if until }}
    ) then update set {{ valid_to }} = DBT_INTERNAL_SOURCE.{{ valid_to }}
    when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert' then
        insert ({{ names | join(', ') }}) values ({{ values | join(', ') }})
{% endmacro %}
