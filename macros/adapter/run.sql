{#- The adapter calls these macros before dbt runs the hooks on-run-start and on-run-end (`clear_transaction` in
    scripts/dbt/adapters/headwaters/impl.py), unless `vars: {headwaters_hooks: false}`. -#}

{% macro hw_begin_run(ops_tests) %}
    {%- do check_tables() -%}
    {%- do register_sources() -%}
    {%- if ops_tests and flags.WHICH in ['build', 'test'] -%}{%- do hw_create_ops_tables() -%}{%- endif -%}
{% endmacro %}


{#- Stores also, in `target/`, the models that had nothing to do. -#}
{% macro hw_end_run() %}
    {%- if flags.WHICH in ['run', 'build', 'retry'] -%}
        {%- set models = graph.nodes.values() | selectattr('resource_type', 'equalto', 'model') -%}
        {%- set models = models | rejectattr('config.materialized', 'equalto', 'ephemeral') -%}
        {%- set selected = models | selectattr('unique_id', 'in', selected_resources) -%}
        {%- do hw_drop_orphaned_staging_tables(selected | map(attribute='schema') | unique | list) -%}
        {%- do adapter.keep_unchanged() -%}
    {%- endif -%}
{% endmacro %}
