{#- `dbt clone` makes shallow clones: a table of its own over the same files. Its properties come with it, the watermark of its inputs
    among them, so that an incremental run goes on from there; changes to the one are never seen in the other. -#}
{% macro spark__can_clone_table() %}
    {{ return(true) }}
{% endmacro %}


{% macro spark__create_or_replace_clone(this_relation, defer_relation) %}
    create or replace table {{ this_relation }} shallow clone {{ defer_relation }}
{% endmacro %}
