{#- Fails with every row in which a model that follows change feeds differs from its own SQL computed anew at
    the versions of its inputs that the table says it holds. `sample_keys`: compare about so many keys. -#}
{% test equals_full_refresh(model, sample_keys=none) %}
    {%- if execute and flags.WHICH in ['test', 'build'] -%}
        {{ _differences_from_full_refresh_sql(model, sample_keys) }}
    {%- else -%}
        select * from {{ model }} where false
    {%- endif -%}
{% endtest %}
