{#- Allows `dbt clone` to make shallow clones: separate tables over the same files. A clone has the properties of its
    source, including the applied versions of its inputs, so an incremental run continues from there. Changes to one
    never affect the other. A property also names the source: VACUUM of the source has to keep its files, and a clone's
    log does not retain the name. -#}
{% macro headwaters__can_clone_table() %}
    {{ return(true) }}
{% endmacro %}


{% macro headwaters__create_or_replace_clone(this_relation, defer_relation) %}
    {%- set existing = adapter.get_relation(none, this_relation.schema, this_relation.identifier) -%}
    {%- if existing is not none and existing.is_delta -%}
        {#- Delta replaces only an empty table by a clone. Without applied versions, a run rebuilds it if the clone
            fails. -#}
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


{#- Clones as dbt does: dbt-spark's materialization also clones a table onto itself, which would empty it. -#}
{% materialization clone, adapter='headwaters' %}
    {%- if config.get('file_format') not in (none, '', 'delta') -%}
        {%- set text = ': dbt clone copies tables of Delta, and not of file_format: ' -%}
        {%- do hw_raise('HW_SETTING', model.original_file_path ~ text ~ config.get('file_format')) -%}
    {%- endif -%}
    {{ return(materialization_clone_default()) }}
{% endmaterialization %}
