{#- Returns an input pinned to its newest version, with a marker in the compiled SQL that records the pin:
    scripts/headwaters/runs/inputs.py. All input macros call it. -#}
{% macro hw_input(kind, relation, options={}) %}
    {{ return(adapter.runs.input(context, kind, relation, options)) }}
{% endmacro %}
