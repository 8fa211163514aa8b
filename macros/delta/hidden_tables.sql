{#- Hidden tables have what a model of the strategy `staged` keeps of the queries below its cuts: `<model>__hw_stage_<n>`, beside its own.
    Their rows follow from the model's inputs alone: one that is dropped is built again by the next run that needs it. -#}
{#- Those of a schema: schema, identifier, relation, and the identifier of the model's table that each is of. -#}
{% macro hw_hidden_tables_in(schema) %}
    {%- set found = [] -%}
    {%- for row in run_query('show tables in ' ~ hw_quote(schema) ~ " like '*__hw_stage_*'").rows -%}
        {%- set named = adapter.table_of_hidden(row['tableName']) -%}
        {%- if named -%}
            {%- do found.append({'schema': schema, 'identifier': row['tableName'], 'of': named[0], 'number': named[1],
                'relation': hw_quoted_name(schema, row['tableName'])}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- How many hidden tables a table has, by its property `headwaters.proof`. -#}
{% macro hw_count_of_hidden_tables(proof) %}
    {%- set noted = fromjson(proof or 'null', none) -%}
    {{ return(noted.stages.tables | length if noted is mapping and noted.stages else 0) }}
{% endmacro %}
