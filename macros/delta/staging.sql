{#- A staging table stores the rows that a run is about to write: the run computes them once, inspects them, applies them in one commit, and
    drops the table. drop_orphaned_staging_tables drops those of killed runs. -#}

{#- Returns the name of this run of dbt, `<minute>_<invocation>`; its staging tables, notes and commits have it. -#}
{% macro hw_run_id() %}
    {{ return(run_started_at.strftime('%Y%m%d%H%M') ~ '_' ~ invocation_id.replace('-', '')[:8]) }}
{% endmacro %}


{#- Returns `identifier__stage_<minute>_<run>`, which no other model or run uses. -#}
{% macro hw_staging_name(identifier, run=none) %}
    {{ return(identifier ~ '__stage_' ~ (run or hw_run_id())) }}
{% endmacro %}


{#- Returns the staging table of the current model, or of one batch of it (microbatch); or that of another run. `part`: the part of the
    change set that it stores. -#}
{% macro hw_staging_relation(target, run=none, part=none) %}
    {%- set batch = '_' ~ model.batch.id | replace('-', '') if model.batch else '' -%}
    {%- set name = hw_staging_name(target.identifier, run) ~ batch ~ ('_' ~ part if part else '') -%}
    {{ return(target.incorporate(path={'identifier': name})) }}
{% endmacro %}


{% macro hw_create_staging_table(stage, sql) %}
    {%- do run_query(hw_create_staging_table_sql(stage, sql)) -%}
{% endmacro %}


{% macro hw_create_staging_table_sql(stage, sql) -%}
create table {{ stage }} using parquet as
{{ sql }}
{%- endmacro %}


{% macro hw_drop_staging_table(stage) %}
    {%- do run_query('drop table if exists ' ~ stage) -%}
{% endmacro %}
