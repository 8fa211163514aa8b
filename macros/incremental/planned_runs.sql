{#- Prints the next runs of models as JSON, planned from the logs of their tables: see `headwaters explain`. `tables`: the
    folder of each Delta table by its name. -#}
{% macro hw_planned_runs(models, tables) %}
    {{ print(adapter.runs.planned(context, models, tables)) }}
{% endmacro %}
