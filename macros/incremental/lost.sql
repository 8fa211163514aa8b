{#- Selects the number of rows, and the newest schema in a table's log, which has properties of columns that no
    statement of Spark returns. -#}
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
