{#- Returns the nodes of the project that are tables, by name of the table. `select`: names of tables, of nodes or of schemas. -#}
{% macro hw_table_nodes(select=none) %}
    {{ return(adapter.named_tables.table_nodes(graph, hw_as_list(select))) }}
{% endmacro %}
