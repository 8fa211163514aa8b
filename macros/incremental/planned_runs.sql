{#- Prints the next runs of models and seeds as JSON, planned from the logs of their tables: see `headwaters explain`.
    `tables`: the folder of each Delta table by its name. -#}
{% macro hw_planned_runs(models, seeds, tables) %}
    {{ print(adapter.runs.planned(context, models, seeds, tables)) }}
{% endmacro %}
