{#- What runs of a table take: scripts/headwaters/incremental/costs.py. -#}

{#- What an incremental run of the plan counts as. -#}
{% macro hw_way_of_plan(plan) %}
    {{ return(adapter.way_of_ranges(plan.ranges.values() | list)) }}
{% endmacro %}


{#- A result with what the run took, and was predicted to take. -#}
{% macro hw_with_seconds(result, plan, seconds) %}
    {%- do result.counts.update({'seconds': seconds | round(1)}) -%}
    {%- set decision = plan.decision -%}
    {%- if decision and decision.predicted_text -%}
        {%- do result.counts.update({'predicted_seconds': decision.predicted | round(1)}) -%}
        {%- set message = result.message ~ ', in ' ~ seconds | round(1) ~ ' s (' ~ decision.predicted_text ~ ')' -%}
        {%- do result.update({'message': message}) -%}
    {%- endif -%}
    {{ return(result) }}
{% endmacro %}
