{#- Loads a seed and replaces dbt-spark 1.11's macro. That one breaks on an apostrophe, writes NULL as the text 'None'
    and turns every number into a float. It also drops the table, so readers fail during the load and the history is
    lost. Remove this macro when dbt-spark binds seed values as literals and replaces the table in one commit.
    - One CREATE OR REPLACE TABLE … AS SELECT replaces the table's content: a reader sees the old rows or the new.
    - A column has the type of `column_types`. Its values reach Spark as text and are cast there, so an invalid value
      fails the seed and leaves the table unchanged. Columns without a type get dbt's guess.
    - An empty field and the word null are NULL, as in every dbt seed.
    - A table with the file's content keeps it, unless another writer changed it since. Its properties are reconciled
      with the declaration. -#}
{% materialization seed, adapter='headwaters' %}
    {%- set target_relation = this.incorporate(type='table') -%}
    {%- set old_relation = adapter.get_relation(database=database, schema=schema, identifier=model['alias']) -%}
    {%- do hw_check_seed(old_relation) -%}
    {%- set table = load_agate_table() -%}
    {%- do store_result('agate_table', response='OK', agate_table=table) -%}
    {%- set batches = hw_seed_batches(table, hw_seed_types(table)) -%}
    {%- set checksum = hw_seed_checksum(target_relation, batches) -%}
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
        {{ hw_raise('HW_SEED',
            "cannot load the seed into " ~ old_relation ~ ": it is a view; drop the view or give the seed another alias"
        ) }}
    {%- endif -%}
    {%- if config.get('file_format', 'delta') != 'delta' -%}
        {{ hw_raise('HW_FILE_FORMAT',
            "a seed is a Delta table: file_format is " ~ config.get('file_format') ~ "; leave it out or write delta"
        ) }}
    {%- endif -%}
{% endmacro %}


{#- Replaces the table by the seed's rows: in one statement, or from a staging table if the file is long. -#}
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


{#- Returns the type of each column, in the file's order. -#}
{% macro hw_seed_types(table) %}
    {%- set declared = config.get('column_types', {}) -%}
    {%- for column in declared if column not in table.column_names -%}
        {{ hw_raise('HW_SEED',
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


{#- Returns SELECT statements that together give the seed's rows. There is at least one, and more if Spark's parser
    could not handle one statement: each has at most the rows of one of dbt's batches. -#}
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


{#- The seed's checksum covers this text with its whitespace: another layout would load all seeds again. -#}
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


{#- Casts a column's text to its type. dbt-spark switches ANSI off, so a plain cast would turn an invalid value into
    NULL. -#}
{% macro hw_seed_cast(column, type) -%}
    {%- set name = adapter.quote(column) -%}
    {%- if type == 'string' -%}
cast({{ name }} as string) as {{ name }}
    {%- else -%}
        {%- set cast = 'try_cast(' ~ name ~ ' as ' ~ type ~ ')' -%}
        {%- set has, is_no = 'the seed ' ~ model.name ~ " has '", "' in the column " ~ column ~ ', which is no ' ~ type -%}
        {%- set text = 'concat(' ~ hw_literal(has) ~ ', ' ~ name ~ ', ' ~ hw_literal(is_no) ~ ')' -%}
        {%- set fits = hw_seed_fits(name, cast, type | lower) if column in config.get('column_types', {}) else '' -%}
if({{ name }} is null or {{ cast }} is not null{{ fits }}, {{ cast }}, raise_error({{ text }})) as {{ name }}
    {%- endif -%}
{%- endmacro %}


{#- Returns the further condition that a cast keeps the whole value: Spark rounds a decimal, cuts the time off a date, and
    a table made from a query has no length of a text. -#}
{% macro hw_seed_fits(name, cast, type) -%}
    {%- set decimal = modules.re.fullmatch('(?:decimal|dec|numeric) *[(] *([0-9]+) *(?:, *([0-9]+) *)?[)]', type) -%}
    {%- set text = modules.re.fullmatch('(?:var)?char *[(] *([0-9]+) *[)]', type) -%}
    {%- if decimal -%}
        {%- set scale = 38 - decimal.group(1) | int + (decimal.group(2) or 0) | int -%}
        {{ ' and ' ~ cast ~ ' = try_cast(' ~ name ~ ' as decimal(38, ' ~ scale ~ '))' }}
    {%- elif type == 'date' -%}
        {{ ' and ' ~ cast ~ ' = try_cast(' ~ name ~ ' as timestamp_ntz)' }}
    {%- elif text -%}
        {{ ' and char_length(' ~ name ~ ') <= ' ~ text.group(1) }}
    {%- endif -%}
{%- endmacro %}


{#- Replaces the table by the rows of `source`. -#}
{% macro hw_seed_create(relation, source, checksum) %}
    {%- set properties = dict(adapter.properties.created_properties(model.config), **{'headwaters.seed.checksum': checksum}) -%}
    create or replace table {{ relation }}
    using delta
    tblproperties ({{ hw_assignments(properties) }})
    {{ partition_cols(label="partitioned by") }}
    {{ location_clause() }}
    {{ comment_clause() }}
    as
    {{ source }}
{% endmacro %}


{#- Returns a digest of all that the load of the seed writes. -#}
{% macro hw_seed_checksum(relation, batches) %}
    {{ return(local_md5(hw_seed_create(relation, batches | join('\n'), none) ~ tojson(model.columns, sort_keys=true))) }}
{% endmacro %}


{#- Returns the digest for `headwaters explain`, in the context of the seed. -#}
{% macro hw_seed_checksum_of_file() %}
    {%- set table = load_agate_table() -%}
    {{ return(hw_seed_checksum(this.incorporate(type='table'), hw_seed_batches(table, hw_seed_types(table)))) }}
{% endmacro %}


{#- Returns true if the table has the seed of this checksum: a seed wrote it, and nothing else has written since. -#}
{% macro hw_seed_is_current(relation, detail, checksum) %}
    {%- if not adapter.commits.is_of_seed(detail['properties'], checksum) -%}
        {{ return(false) }}
    {%- endif -%}
    {%- set operations = run_query('describe history ' ~ relation ~ ' limit 20') | map(attribute='operation') -%}
    {{ return(adapter.commits.was_loaded_last(operations)) }}
{% endmacro %}
