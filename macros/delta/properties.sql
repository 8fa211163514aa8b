{#- Returns the properties of a table without the state of its files, which DESCRIBE DETAIL would compute. Spark redacts a value that may
    hold a secret, such as SQL that reads a column `token`; DESCRIBE DETAIL does not. -#}
{% macro hw_properties_of(relation) %}
    {%- set properties = {} -%}
    {%- for row in run_query('show tblproperties ' ~ relation).rows -%}{%- do properties.update({row[0]: row[1]}) -%}{%- endfor -%}
    {%- if adapter.properties.is_redacted(properties) -%}
        {%- do properties.update(adapter.commits.as_mapping(run_query('describe detail ' ~ relation).rows[0]['properties'])) -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{% macro hw_set_properties_sql(relation, properties) -%}
    alter table {{ relation }} set tblproperties ({{ hw_assignments(properties) }})
{%- endmacro %}
