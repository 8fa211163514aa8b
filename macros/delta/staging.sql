{#- A staging table has what a run is about to write, beside the target: computed once, inspected, applied in one
    commit, dropped. What a killed run leaves is dropped by drop_orphaned_staging_tables. -#}

{#- The name of this run of dbt, `<minute>_<invocation>`, by which its staging tables, its notes and its commits are known. -#}
{% macro hw_run_id() %}
    {{ return(run_started_at.strftime('%Y%m%d%H%M') ~ '_' ~ invocation_id.replace('-', '')[:8]) }}
{% endmacro %}


{#- `identifier__stage_<minute>_<run>`: a name that no other model or run has. -#}
{% macro hw_staging_name(identifier, run=none) %}
    {{ return(identifier ~ '__stage_' ~ (run or hw_run_id())) }}
{% endmacro %}


{#- The staging table of the model that runs, or of one batch of it (microbatch); or that of another run. `part`: of what its rows
    are computed from. -#}
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
