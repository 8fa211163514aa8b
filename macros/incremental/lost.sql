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
