{#- Refuses invalid declarations, and tables that retain their changes for too short a time for their readers, before a run changes a table:
    scripts/headwaters/tables/checks.py. A run begins with it; it sends no statement to Spark. A review reports
    these problems itself, so its runs do not fail for them. -#}
{% macro check_tables() %}
    {%- if execute and not var('headwaters_review', false) -%}
        {%- set problems = adapter.checks.graph_problems(graph.nodes, graph.sources, project_name) -%}
        {%- if problems -%}{{ hw_raise_problems(problems) }}{%- endif -%}
        {%- for line in adapter.contracts.missing_columns(graph.nodes, selected_resources) -%}
            {%- do exceptions.warn(line) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}
