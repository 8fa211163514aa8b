{#- The way of affected_keys whose changed rows are traced to columns of the result: for each input, a query of the keys to which rows
    that changed lead, through all rows that other inputs had at their applied versions or have (scripts/headwaters/analysis/traced.py).
    The inputs are read whole, and the result is filtered by the keys. -#}
{% macro hw_led_keys__change_set_sql(target, sql, plan, settings, columns, bounds) %}
    {%- set key = settings.leads.key -%}
    {%- set affected = plan.facts.known_keys or hw_led_keys__affected_keys_sql(sql, plan, settings) -%}
    {%- set recomputed = hw_rows_of_led_keys_sql(sql, key) -%}
    {%- if not hw_has_key(settings) -%}
        {{ return(hw_recomputed_without_key_sql(target, affected, key, recomputed, columns, bounds)) }}
    {%- endif -%}
    {{ return(hw_recomputed_sql(target, affected, key, recomputed, settings, bounds)) }}
{% endmacro %}


{% macro hw_rows_of_led_keys_sql(sql, key) -%}
select _model.* from (
{{ sql }}
) as _model left semi join _touched on {{ hw_equals(key, '_model', '_touched') }}
{%- endmacro %}


{#- The affected keys, as the table has them. -#}
{% macro hw_led_keys__affected_keys_sql(sql, plan, settings) -%}
    {%- set leads = settings.leads -%}
    {%- set stored = hw_partitions_among(leads.key, settings) -%}
    {%- set names = [] -%}
    {%- for name in leads.key -%}
        {%- set value = hw_quote(name) -%}
        {%- do names.append((hw_as_stored_value(value) ~ ' as ' ~ value) if name in stored else value) -%}
    {%- endfor -%}
    {%- set queries = [] -%}
    {%- for source, lead in leads.inputs.items() if lead.sql and source in plan.ranges and plan.ranges[source].rows > 0 -%}
        {%- do queries.append(hw_lead_sql(lead.sql, plan, leads)) -%}
    {%- endfor -%}
select distinct {{ names | join(', ') }} from (
{{ queries | join('\nunion all\n') }}
)
{%- endmacro %}


{#- A lead with the relations that its names stand for. -#}
{% macro hw_lead_sql(sql, plan, leads) %}
    {%- set written = namespace(sql=sql) -%}
    {%- for spec in plan.inputs if spec.source in leads.inputs -%}
        {%- set name = leads.inputs[spec.source].name -%}
        {%- set pinned = 'select * from ' ~ hw_input_sql(spec) -%}
        {%- set range = plan.ranges.get(spec.source) -%}
        {%- if range and range.rows > 0 -%}
            {%- set images = hw_all_rows(range, spec.source) -%}
            {%- set written.sql = written.sql | replace('`hw_changed:' ~ name ~ '`', images) -%}
            {%- set pinned = pinned ~ ' union all select * from ' ~ images -%}
        {%- endif -%}
        {%- set written.sql = written.sql | replace('`hw_wide:' ~ name ~ '`', '(' ~ pinned ~ ')') -%}
    {%- endfor -%}
    {{ return(written.sql) }}
{% endmacro %}


{% macro hw_led_keys__affected_key_columns(plan, settings) %}
    {{ return(settings.leads.key) }}
{% endmacro %}


{#- The keys that are recomputed, among those of the table. Runs a statement. -#}
{% macro hw_led_keys__share_changed(relation, sql, plan, settings) %}
    {{ return(hw_share_of_keys(relation, hw_led_keys__affected_keys_sql(sql, plan, settings), settings.leads.key, plan, settings)) }}
{% endmacro %}


{% macro hw_led_keys__check(where, sql, inputs, settings) %}
{% endmacro %}


{% macro hw_led_keys__tried_rows(inputs, settings) %}
    {{ return(none) }}
{% endmacro %}


{% macro hw_led_keys__facts_before_staging(target, sql, plan, settings) %}
    {{ return(hw_facts_of_affected_keys(target, sql, plan, settings)) }}
{% endmacro %}
