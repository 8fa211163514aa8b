{#- Finds the table of an operation by name, before any statement mentions it: `gold.sessions`, the name of a model or source, or another
    Delta table, such as a backup. Returns name, relation (quoted), schema, identifier, node (none if the project does not declare it),
    detail, version. -#}
{% macro hw_target(operation, table) %}
    {%- set parts = adapter.named_tables.named_table(graph, operation, table) -%}
    {%- set schemas = run_query('show schemas').columns[0].values() -%}
    {%- set found = adapter.get_relation(none, parts.schema, parts.identifier) if parts.schema in schemas else none -%}
    {%- if found is none -%}
        {{ hw_raise('HW_NO_SUCH_TABLE', operation ~ ": there is no table '" ~ table ~ "'"
            ~ (' yet' if parts.node else adapter.names.or_nearest(table | string, parts.names)) ~ '. Nothing was changed.') }}
    {%- elif not found.is_delta -%}
        {{ hw_raise('HW_NOT_A_DELTA_TABLE', operation ~ ': ' ~ table ~ ' is a '
            ~ ('view' if found.is_view else 'table of another format') ~ ', and this works on Delta tables only. Nothing was changed.') }}
    {%- endif -%}
    {%- set relation = hw_named(found) -%}
    {%- set detail = run_query('describe detail ' ~ relation).rows[0] -%}
    {{ return({
        'name': parts.schema ~ '.' ~ parts.identifier, 'relation': relation, 'schema': parts.schema, 'identifier': parts.identifier,
        'node': parts.node,
        'detail': detail, 'version': hw_newest_commit(relation).version, 'found': found,
    }) }}
{% endmacro %}


{#- Prints the first lines of every plan: the table, its version and its size. -#}
{% macro hw_target_line(target, rows) %}
    {{ return(target.name ~ ' (version ' ~ target.version ~ ': ' ~ target.detail['numFiles'] ~ ' files, '
        ~ hw_size(target.detail['sizeInBytes'] | int) ~ ', ' ~ rows ~ ' rows)') }}
{% endmacro %}


{#- Returns the version of a number or a time; an error lists the versions. -#}
{% macro hw_version_of(operation, relation, version, timestamp) %}
    {%- set wanted = adapter.versions.wanted_version(operation, version, timestamp) -%}
    {%- set found = adapter.versions.found_version(wanted, relation, hw_describe_history(relation, 100000)) -%}
    {%- if found.is_vacuumed and flags.WHICH == 'run-operation' and hw_has_lost_files(relation, found.version) -%}
        {{ hw_raise('HW_VACUUMED_VERSION', operation ~ ': files of version ' ~ found.version ~ ' of ' ~ relation
            ~ ' were vacuumed: it can no longer be read. A backup may have it: `dbt run-operation list_backups`. Nothing was changed.') }}
    {%- endif -%}
    {{ return(found.version) }}
{% endmacro %}


{#- The history lists versions whose files are gone. Delta counts rows by its log, Spark by the existing files. Not for use while models
    run: they share the setting. -#}
{% macro hw_has_lost_files(relation, version) %}
    {%- do run_query('set `spark.sql.files.ignoreMissingFiles` = true') -%}
    {%- set rows = run_query(hw_rows_told_and_found_sql(relation ~ ' version as of ' ~ version)).rows[0] -%}
    {%- do run_query('reset `spark.sql.files.ignoreMissingFiles`') -%}
    {{ return(rows['told'] != rows['found']) }}
{% endmacro %}


{% macro hw_rows_told_and_found_sql(snapshot) -%}
    select
        (select count(*) from {{ snapshot }}) as told,
        (select count_if(length(_metadata.file_path) > 0) from {{ snapshot }}) as found
{%- endmacro %}


{#- Counts the rows of a condition. Refuses a condition that matches no row, and one that matches all rows unless that is allowed. -#}
{% macro hw_matched(operation, target, predicate, allow_all) %}
    {%- if not predicate or not predicate | string | trim -%}
        {{ hw_raise('HW_NO_PREDICATE', operation ~ ': say which rows, in predicate: a condition on the columns of ' ~ target.name
            ~ '.') }}
    {%- endif -%}
    {%- set row = run_query(hw_matched_sql(target.relation, predicate)).rows[0] -%}
    {%- set found = {'rows': row['rows'] | int, 'matched': row['matched'] | int, 'whole': row['whole'] | int,
        'parts': row['parts'] | int} -%}
    {%- if found.matched == found.rows and found.rows and not allow_all -%}
        {{ hw_raise('HW_ALL_ROWS_MATCH', operation ~ ': the predicate takes all ' ~ found.rows ~ ' rows of ' ~ target.name
            ~ '; if that is meant, say allow_all: true. Nothing was changed.') }}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}


{#- Counts rows, and files with only matching rows (whole) or some (parts). -#}
{% macro hw_matched_sql(relation, predicate) -%}
    select
        count(*) as files,
        coalesce(sum(matched), 0) as matched,
        coalesce(sum(rows), 0) as rows,
        count_if(matched = rows) as whole,
        count_if(matched between 1 and rows - 1) as parts
    from (
        select _metadata.file_path, count(*) as rows, count_if({{ hw_ended(predicate) }}) as matched
        from {{ relation }}
        group by 1
    )
{%- endmacro %}


{#- Lists the followers of a table, which apply a repair in their next run. -#}
{% macro hw_followers_line(target) %}
    {%- set followers = adapter.named_tables.followers_of(graph, target.node) -%}
    {{ return(['  the next run takes it to ' ~ followers | join(', ')] if followers else []) }}
{% endmacro %}


{#- Returns the model's SQL over the versions of its inputs that its table has applied: the expected rows of the table. -#}
{% macro hw_full_refresh_sql_of_model(operation, target) %}
    {%- set is_model = target.node and target.node.resource_type == 'model' -%}
    {%- set sql = adapter.runs.full_refresh_sql(context, target.node, target.found) if is_model else none -%}
    {%- if sql is none -%}
        {{ hw_raise('HW_NO_MODEL_OF_TABLE', operation ~ ': ' ~ target.name ~ ' is not a table that a model with one of the strategies '
            ~ adapter.analysis.strategy_names() | join(', ') ~ ' built: its rows cannot be computed again. Nothing was changed.') }}
    {%- endif -%}
    {{ return(hw_selected_sql(adapter.get_columns_in_relation(target.found), sql)) }}
{% endmacro %}


{% macro hw_selected_sql(columns, sql) -%}
select {{ columns | map(attribute='quoted') | join(', ') }} from (
{{ sql }}
)
{%- endmacro %}
