{#- Hidden tables store the queries below the cuts of a model with the strategy `staged`, as `<model>__hw_stage_<n>` in the schema of the
    model's table. Their rows depend only on the model's inputs: the next run that needs a dropped one builds it again. -#}
{#- Returns the hidden tables of a schema: schema, identifier, relation, and the identifier of the model's table. -#}
{% macro hw_hidden_tables_in(schema) %}
    {%- set found = [] -%}
    {%- for row in run_query('show tables in ' ~ hw_quote(schema) ~ " like '*__hw_stage_*'").rows -%}
        {%- set named = adapter.named_tables.table_of_hidden(row['tableName']) -%}
        {%- if named -%}
            {%- do found.append({'schema': schema, 'identifier': row['tableName'], 'of': named[0], 'number': named[1],
                'relation': hw_quoted_name(schema, row['tableName'])}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}
