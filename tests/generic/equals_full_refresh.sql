{#- Returns every row in which an incremental model differs from its own SQL, recomputed at the applied versions
    of its inputs. `sample_keys`: compare about that many keys. -#}
{% test equals_full_refresh(model, sample_keys=none) %}
    {%- if execute and flags.WHICH in ['test', 'build'] -%}
        {{ hw_differences_from_full_refresh_sql(model, sample_keys) }}
    {%- else -%}
        select * from {{ model }} where false
    {%- endif -%}
{% endtest %}
