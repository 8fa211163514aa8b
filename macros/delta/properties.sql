{% macro hw_set_properties_sql(relation, properties) -%}
    alter table {{ relation }} set tblproperties ({{ hw_assignments(properties) }})
{%- endmacro %}
