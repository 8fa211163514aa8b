{#- Refuses the first run of a model over a table that it did not build, where a replacement would lose more than rows that it gives back:
    scripts/headwaters/incremental/lost.py. `state`: what the table says of itself. -#}
{% macro hw_refuse_lost_table(existing, sql, state) %}
    {%- set lost = none if flags.EMPTY and state else hw_lost_table(existing, sql, model.config, model, state) -%}
    {%- if lost -%}{%- do hw_raise_problems([lost]) -%}{%- endif -%}
{% endmacro %}


{#- The problem, or none. A table that no run of the model built is described by three statements; any other by none. -#}
{% macro hw_lost_table(existing, sql, settings, node, state) %}
    {%- if existing is none or existing.is_view or (state and adapter.is_of_model(state.properties)) -%}
        {{ return(none) }}
    {%- elif not existing.is_delta -%}
        {{ return(adapter.other_format(existing | string, node).at(node.original_file_path)) }}
    {%- endif -%}
    {%- set detail = run_query('describe detail ' ~ existing).rows[0] -%}
    {%- set facts = run_query(hw_schema_and_rows_sql(existing, detail)).rows[0] -%}
    {%- set lost = adapter.lost_table(
        table=existing | string, node=node, config=settings, columns=hw_column_names(hw_columns_of_full_refresh(sql, settings)),
        detail=detail, schema=facts['schema'], commits=hw_describe_history(existing, 1000), rows=facts['rows'] | int
    ) -%}
    {{ return(lost.at(node.original_file_path) if lost else none) }}
{% endmacro %}


{#- The newest schema that a table's log has, with what no statement of Spark tells of columns, and the number of rows. -#}
{% macro hw_schema_and_rows_sql(relation, detail) -%}
    with log as (
        select substr(_metadata.file_name, 1, 20) as version,
            coalesce(get_json_object(value, '$.metaData.schemaString'), get_json_object(value, '$.metadata.schemaString')) as schema
        from text.{{ hw_quote(detail['location'] ~ '/_delta_log/*.{json,crc}') }}
        where _metadata.file_name rlike '^\\d{20}[.](json|crc)$'
    )
    select max_by(schema, version) filter (where schema is not null) as schema, (select count(*) from {{ relation }}) as rows
    from log
{%- endmacro %}
