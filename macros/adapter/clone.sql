{#- `dbt clone` makes shallow clones: a table of its own over the same files. Its properties come with it, the applied
    versions of its inputs among them, so that an incremental run continues from there; changes to the one are never seen
    in the other. What it was cloned from is a property too: VACUUM of the source has to leave its files, and a clone's
    log does not retain. -#}
{% macro headwaters__can_clone_table() %}
    {{ return(true) }}
{% endmacro %}


{% macro headwaters__create_or_replace_clone(this_relation, defer_relation) %}
    {%- set existing = adapter.get_relation(none, this_relation.schema, this_relation.identifier) -%}
    {%- if existing is not none and existing.is_delta -%}
        {#- Delta replaces only an empty table by a clone. Without applied versions it is rebuilt, should the clone fail. -#}
        {%- do run_query(hw_set_properties_sql(hw_named(existing), {'headwaters.inputs': 'null', 'headwaters.pending': 'null'})) -%}
        {%- do run_query('delete from ' ~ hw_named(existing)) -%}
    {%- elif existing is not none -%}
        {%- do adapter.drop_relation(existing) -%}
    {%- endif -%}
    {%- set source = adapter.get_relation(none, defer_relation.schema, defer_relation.identifier) -%}
    {%- if source is not none and source.is_delta -%}
        {%- set version = hw_newest_commit(source).version -%}
        create or replace table {{ this_relation }} shallow clone {{ hw_named(source) }} version as of {{ version }}
tblproperties ({{ hw_assignments(hw_clone_note(source, version)) }})
    {%- else -%}
        create or replace table {{ this_relation }} shallow clone {{ defer_relation }}
    {%- endif -%}
{% endmacro %}
