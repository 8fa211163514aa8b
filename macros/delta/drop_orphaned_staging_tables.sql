{#- Drops tables named `<model>__stage_<minute>_<run>`: change sets that a run handed on, and staging tables of killed runs. It drops those
    of this run at its end, and those older than a day: no run takes that long, so other runs have younger staging tables. `schemas` are, as
    in dbt, the schemas of successful nodes; `results` name the failed models. -#}
{% macro drop_orphaned_staging_tables(schemas, results=[]) %}
    {%- if execute and flags.WHICH in ['run', 'build', 'retry'] -%}
        {%- set yesterday = (run_started_at - modules.datetime.timedelta(days=1)).strftime('%Y%m%d%H%M') -%}
        {%- set failed = results | selectattr('node.resource_type', 'equalto', 'model') | selectattr('status', 'equalto', 'error') -%}
        {%- for schema in (schemas | list + failed | map(attribute='node.schema') | list) | unique -%}
            {%- for row in run_query('show tables in ' ~ schema ~ " like '*__stage_*'").rows -%}
                {%- set made = modules.re.search('__stage_((\\d{12})_[0-9a-f]{8})', row['tableName']) -%}
                {%- if made and (made.group(1) == hw_run_id() or made.group(2) < yesterday) -%}
                    {%- do hw_drop_staging_table(hw_quoted_name(schema, row['tableName'])) -%}
                {%- endif -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}
