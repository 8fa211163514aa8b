{#- Notes the source of a clone: the files of a clone's clone belong to the first table. -#}
{% macro hw_clone_note(source, version) %}
    {%- set detail = run_query('describe detail ' ~ hw_named(source)).rows[0] -%}
    {%- set before = adapter.commits.as_mapping(detail['properties']).get('headwaters.clone') -%}
    {{ return({'headwaters.clone': source.schema ~ '.' ~ source.identifier ~ ',' ~ version ~ (';' ~ before if before else '')}) }}
{% endmacro %}


{#- Returns the shallow clones of a table, by its name or its path: a list of name and version. -#}
{% macro hw_clones_of(state, states) %}
    {%- set clones = [] -%}
    {%- for other, its in states.items() -%}
        {%- for origin in its.clone_of if origin.source == state.name
            or hw_path_of(origin.source) == hw_path_of(state.detail['location']) -%}
            {%- do clones.append({'name': other, 'version': origin.version}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(clones) }}
{% endmacro %}


{% macro hw_path_of(location) %}
    {{ return(modules.re.sub('^file:/+', '/', location).rstrip('/')) }}
{% endmacro %}
