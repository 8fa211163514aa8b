{#- A run that was killed leaves its staging table behind, named `<model>__stage_<minute>_<run>`. Those older than a day are dropped at
    the end of a run: no run takes that long, and another run's staging table is younger. -#}
{% macro drop_orphaned_staging_tables(schemas) %}
    {%- if execute and flags.WHICH in ['run', 'build', 'retry'] -%}
        {%- set yesterday = (run_started_at - modules.datetime.timedelta(days=1)).strftime('%Y%m%d%H%M') -%}
        {%- for schema in schemas -%}
            {%- for row in run_query('show tables in ' ~ schema ~ " like '*__stage_*'").rows -%}
                {%- set made = modules.re.search('__stage_(\\d{12})_', row['tableName']) -%}
                {%- if made and made.group(1) < yesterday -%}
                    {%- do hw_drop_staging_table(hw_quoted_name(schema, row['tableName'])) -%}
                {%- endif -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}
