{#- What every input macro does: pin the input to its newest version and leave a marker in the compiled SQL that says what was
    pinned and how: scripts/headwaters/runs/inputs.py. -#}
{% macro hw_input(kind, relation, options={}) %}
    {{ return(adapter.runs.input(context, kind, relation, options)) }}
{% endmacro %}
