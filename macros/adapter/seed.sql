{#- Loads a seed in place of dbt-spark 1.11, which breaks on an apostrophe, writes NULL as the text 'None', turns every
    number into a float, and drops the table, so that its readers fail meanwhile and its history is lost. Can go when
    dbt-spark binds seed values as literals and replaces the table in one commit.
    - The table's content is replaced by one CREATE OR REPLACE TABLE … AS SELECT: a reader sees the old rows or the new.
    - A column has the type of `column_types`; its values reach Spark as text and are cast there, so a value that does
      not fit fails the seed and leaves the table as it was. Columns without a type get dbt's guess.
    - An empty field and the word null are NULL, as in every dbt seed.
    - A table that holds the file's content already keeps it, unless somebody wrote to it since; its properties are
      reconciled with the declaration. -#}
{% materialization seed, adapter='headwaters' %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set old_relation = adapter.get_relation(database=database, schema=schema, identifier=model['alias']) -%}
    {%- do hw_check_seed(old_relation) -%}
    {%- set table = load_agate_table() -%}
    {%- do store_result('agate_table', response='OK', agate_table=table) -%}
    {%- set batches = hw_seed_batches(table, hw_seed_types(table)) -%}
    {%- set checksum = local_md5(
        hw_seed_create(target_relation, batches | join('\n'), none) ~ tojson(model.columns, sort_keys=true)
    ) -%}
    {%- set detail = none -%}
    {%- if old_relation is not none and old_relation.is_delta -%}
        {%- set detail = run_query('describe detail ' ~ old_relation).rows[0] -%}
    {%- endif -%}
    {%- set current = not should_full_refresh() and detail is not none and hw_seed_is_current(old_relation, detail, checksum) -%}

    {{ run_hooks(pre_hooks) }}

    {%- if current -%}
        {%- do hw_reconcile_table(old_relation, detail) -%}
        {%- call noop_statement('main', 'no changes', 'SKIP', 0) %}-- {{ target_relation }} is up to date{% endcall -%}
    {%- else -%}
        {%- do hw_load_seed(target_relation, old_relation, batches, checksum, table.rows | length) -%}
    {%- endif -%}

    {%- do apply_grants(target_relation, config.get('grants'), should_revoke=should_revoke(old_relation, true)) -%}
    {%- if not current -%}
        {%- do persist_docs(target_relation, model) -%}
    {%- endif -%}

    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{% macro hw_check_seed(old_relation) %}
    {%- if old_relation is not none and old_relation.is_view -%}
        {{ hw_raise('SEED',
            "cannot load the seed into " ~ old_relation ~ ": it is a view; drop the view or give the seed another alias"
        ) }}
    {%- endif -%}
    {%- if config.get('file_format', 'delta') != 'delta' -%}
        {{ hw_raise('FILE_FORMAT',
            "a seed is a Delta table: file_format is " ~ config.get('file_format') ~ "; leave it out or write delta"
        ) }}
    {%- endif -%}
{% endmacro %}


{#- Replaces the table by the seed's rows: one statement, or a staging table first where the file is long. -#}
{% macro hw_load_seed(target_relation, old_relation, batches, checksum, row_count) %}
    {%- if old_relation is not none and not old_relation.is_delta -%}
        {#- Delta replaces only its own tables. -#}
        {%- do adapter.drop_relation(old_relation) -%}
    {%- endif -%}
    {%- set source = batches[0] -%}
    {%- set stage = none -%}
    {%- if batches | length > 1 -%}
        {%- set stage = target_relation.incorporate(path={'identifier': model['alias'] ~ '__seed_stage'}) -%}
        {%- set source = 'select * from ' ~ stage -%}
        {%- for batch in batches -%}
            {%- call statement('stage') -%}
                {{ 'create or replace table ' ~ stage ~ ' using delta as' if loop.first else 'insert into ' ~ stage }}
                {{ batch }}
            {%- endcall -%}
        {%- endfor -%}
    {%- endif -%}
    {%- set create = hw_seed_create(target_relation, source, checksum) -%}
    {%- call statement('replace') -%}{{ create }}{%- endcall -%}
    {%- if stage is not none -%}
        {%- do adapter.drop_relation(stage) -%}
    {%- endif -%}
    {%- call noop_statement('main', row_count ~ ' rows', 'CREATE', row_count) %}{{ create }}{% endcall -%}
{% endmacro %}


{#- The type of each column, in the file's order. -#}
{% macro hw_seed_types(table) %}
    {%- set declared = config.get('column_types', {}) -%}
    {%- for column in declared if column not in table.column_names -%}
        {{ hw_raise('SEED',
            "column_types of the seed " ~ model.name ~ " has a column that its file lacks: " ~ column
            ~ "; the file has " ~ table.column_names | join(', ')
        ) }}
    {%- endfor -%}
    {%- set types = [] -%}
    {%- for column in table.column_names -%}
        {%- do types.append(declared[column] if column in declared else adapter.convert_type(table, loop.index0)) -%}
    {%- endfor -%}
    {{ return(types) }}
{% endmacro %}


{#- SELECT statements that together give the seed's rows; at least one, and more where Spark's parser would choke on
    one: each holds at most as many rows as dbt puts into a batch. -#}
{% macro hw_seed_batches(table, types) %}
    {%- set columns = [] -%}
    {%- set names = [] -%}
    {%- for column in table.column_names -%}
        {%- do columns.append(hw_seed_cast(column, types[loop.index0])) -%}
        {%- do names.append(adapter.quote(column)) -%}
    {%- endfor -%}
    {%- if not table.rows -%}
        {{ return([hw_seed_without_rows_sql(columns, names)]) }}
    {%- endif -%}
    {%- set batches = [] -%}
    {%- for rows in table.rows | batch(get_batch_size()) -%}
        {%- do batches.append(hw_seed_rows_sql(columns, names, rows)) -%}
    {%- endfor -%}
    {{ return(batches) }}
{% endmacro %}


{#- A seed's checksum is of this text, its whitespace included: another layout would load all seeds again. -#}
{% macro hw_seed_rows_sql(columns, names, rows) -%}
select {{ columns | join(', ') }}
from values
{% for row in rows -%}
(
    {%- for value in row -%}
        {{ 'null' if value is none else hw_literal(value | string) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
){{ ',' if not loop.last }}
{% endfor -%}
as seed({{ names | join(', ') }})
{%- endmacro %}


{% macro hw_seed_without_rows_sql(columns, names) -%}
    {%- set nulls = ['null'] * (names | length) -%}
select {{ columns | join(', ') }} from values ({{ nulls | join(', ') }}) as seed({{ names | join(', ') }}) where false
{%- endmacro %}


{#- A column's text as its type. dbt-spark switches ANSI off, so a plain cast would turn what does not fit into NULL. -#}
{% macro hw_seed_cast(column, type) -%}
    {%- set name = adapter.quote(column) -%}
    {%- if type == 'string' -%}
cast({{ name }} as string) as {{ name }}
    {%- else -%}
        {%- set cast = 'try_cast(' ~ name ~ ' as ' ~ type ~ ')' -%}
        {%- set has, is_no = 'the seed ' ~ model.name ~ " has '", "' in the column " ~ column ~ ', which is no ' ~ type -%}
        {%- set text = 'concat(' ~ hw_literal(has) ~ ', ' ~ name ~ ', ' ~ hw_literal(is_no) ~ ')' -%}
if({{ name }} is null or {{ cast }} is not null, {{ cast }}, raise_error({{ text }})) as {{ name }}
    {%- endif -%}
{%- endmacro %}


{#- The statement that replaces the table by the rows of `source`. -#}
{% macro hw_seed_create(relation, source, checksum) %}
    {%- set properties = dict(adapter.created_properties(model.config), **{'headwaters.seed.checksum': checksum}) -%}
    create or replace table {{ relation }}
    using delta
    tblproperties ({{ hw_assignments(properties) }})
    {{ partition_cols(label="partitioned by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
    as
    {{ source }}
{% endmacro %}


{#- Whether the relation holds the seed of this checksum: it was written by it, and nothing was written since. -#}
{% macro hw_seed_is_current(relation, detail, checksum) %}
    {%- if adapter.as_mapping(detail['properties']).get('headwaters.seed.checksum') != checksum -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set harmless = [
        'OPTIMIZE', 'VACUUM START', 'VACUUM END', 'SET TBLPROPERTIES', 'UNSET TBLPROPERTIES', 'CHANGE COLUMN', 'CHANGE COLUMNS'
    ] -%}
    {%- set writes = [] -%}
    {%- for commit in run_query('describe history ' ~ relation ~ ' limit 20') if commit['operation'] not in harmless -%}
        {%- do writes.append(commit['operation']) -%}
    {%- endfor -%}
    {{ return(writes and writes[0] in ['CREATE TABLE AS SELECT', 'CREATE OR REPLACE TABLE AS SELECT']) }}
{% endmacro %}
