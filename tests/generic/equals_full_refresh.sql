{#- Returns every row in which an incremental model differs from its own SQL, recomputed at the applied versions
    of its inputs. `sample_keys`: compare about that many keys. -#}
{% test equals_full_refresh(model, sample_keys=none) %}
    {%- if execute and flags.WHICH in ['test', 'build'] -%}
        {{ adapter.runs.differences_sql(context, hw_model_of(model), model, sample_keys) }}
    {%- else -%}
        select * from {{ model }} where false
    {%- endif -%}
{% endtest %}
