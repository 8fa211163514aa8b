{#- Returns every row of a model for which quarantine has an event of a change stream that nobody has settled. -#}
{% test has_no_event_in_quarantine(model, stream, key) %}
    {%- set quarantine = api.Relation.create(schema=stream.schema, identifier=stream.identifier ~ '_quarantine') -%}
    {%- set names = [] -%}
    {%- for column in ([key] if key is string else key) -%}
        {%- do names.append(adapter.quote(column)) -%}
    {%- endfor -%}
    {%- set columns = adapter.get_columns_in_relation(quarantine) | map(attribute='name') | list if execute else [] -%}
select
    {{ names | join(',\n    ') }}
from {{ model }}
where to_json(struct({{ names | join(', ') }})) in (
    select row_key
    from {{ quarantine }}
    where row_key is not null{% if 'settled' in columns %} and settled is null{% endif %}

)
{% endtest %}
