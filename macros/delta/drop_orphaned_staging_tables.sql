{#- Drops tables named `<model>__stage_<minute>_<run>`: change sets that a run handed on, and staging tables of killed runs. It drops those
    of this run at its end, and those older than a day: no run takes that long, so other runs have younger staging tables. -#}
{% macro hw_drop_orphaned_staging_tables(schemas) %}
    {%- set yesterday = (run_started_at - modules.datetime.timedelta(days=1)).strftime('%Y%m%d%H%M') -%}
    {%- for schema in schemas -%}
        {%- for row in run_query('show tables in ' ~ hw_quote(schema) ~ " like '*__stage_*'").rows -%}
            {%- set made = modules.re.search('__stage_((\\d{12})_[0-9a-f]{8})', row['tableName']) -%}
            {%- if made and (made.group(1) == hw_run_id() or made.group(2) < yesterday) -%}
                {%- do hw_drop_staging_table(hw_quoted_name(schema, row['tableName'])) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}
