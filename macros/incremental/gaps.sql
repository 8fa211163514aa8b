{#- What to do where the changes of an input cannot be read any more: `rebuild` or `fail`. -#}
{% macro hw_on_gap(settings) %}
    {{ return(settings.get('on_gap') or adapter.strategy_of(settings).on_gap) }}
{% endmacro %}


{#- What to do where something else than a run of the model changed its table: `rebuild`, `fail` or `warn`. -#}
{% macro hw_choice_of_foreign_write(settings) %}
    {{ return(settings.get('on_foreign_write') or hw_on_gap(settings)) }}
{% endmacro %}


{#- Ends the run at a gap, unless the model is to be rebuilt. -#}
{% macro hw_fail_on_gap(relation, gap, settings) %}
    {%- if hw_on_gap(settings) == 'fail' -%}
        {{ hw_raise('GAP', 'The changes that ' ~ relation ~ ' has to follow are not there: ' ~ gap ~ '. '
            ~ hw_left_as_it_is(settings, relation)) }}
    {%- endif -%}
{% endmacro %}


{% macro hw_left_as_it_is(settings, relation) %}
    {%- set keeps_past = adapter.strategy_of(settings).keeps_past -%}
    {{ return(
        'on_gap is fail' ~ (' where a history does not say otherwise' if keeps_past else '')
        ~ ', so the table was left as it is; `dbt run --full-refresh --select ' ~ relation.identifier ~ '` rebuilds it'
        ~ (' from what the feed still has. Take a backup before.' if keeps_past else '.')
    ) }}
{% endmacro %}
