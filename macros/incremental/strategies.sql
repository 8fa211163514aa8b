{#- For each strategy: the SQL of a full refresh, and the SQL that stages what an incremental run changes in the target, as the
    target's columns and `_operation` (`insert`, `update` or `delete`), one row a key. None of these macros runs anything. -#}
{% macro hw_full_refresh_sql(strategy, sql, settings, columns=none) %}
    {%- if strategy == 'change_feed' and settings.get('latest_by') -%}
        {{ return(hw_latest_rows_sql(sql, settings)) }}
    {%- elif strategy == 'signed_sum' -%}
        {{ return(hw_signed_result_sql(sql, settings, columns)) }}
    {%- elif strategy == 'history' -%}
        {%- set spec = (hw_inputs_of(sql) | selectattr('kind', 'equalto', 'images') | list)[0] -%}
        {{ return(hw_periods_sql(hw_with_inputs(sql, {spec.text: hw_all_images(spec)}), settings)) }}
    {%- endif -%}
    {{ return(sql) }}
{% endmacro %}


{% macro hw_change_set_sql(strategy, target, sql, plan, settings, columns, bounds) %}
    {%- if strategy == 'change_feed' -%}
        {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'changes') | list)[0] -%}
        {%- set range = plan.ranges[spec.source] -%}
        {%- set appeared = hw_with_inputs(sql, {spec.text: hw_net_rows(range, spec.source, 1)}) -%}
        {%- if not settings.get('latest_by') and range.inserts_only -%}
            {{ return('select *' ~ hw_before_sql(settings) ~ ", 'insert' as _operation from (\n" ~ appeared ~ '\n)') }}
        {%- elif not settings.get('latest_by') -%}
            {{ return(hw_feed_change_set_sql(appeared, hw_with_inputs(sql, {spec.text: hw_net_rows(range, spec.source, -1)}), settings)) }}
        {%- elif range.inserts_only -%}
            {{ return(hw_newer_rows_sql(target, hw_latest_rows_sql(appeared, settings), settings, bounds)) }}
        {%- endif -%}
        {#- rows that were updated or disappeared: what `prune_by` says of a key need not hold for what the target has of it -#}
        {%- set keys = hw_as_list(settings.get('unique_key')) -%}
        {%- set bounds = bounds[:keys | length] -%}
        {{ return(hw_recomputed_sql(target, hw_affected_keys_sql(strategy, sql, plan, settings), keys, hw_latest_rows_sql(
            'select _all.* from (\n' ~ sql ~ '\n) as _all left semi join _touched on ' ~ hw_equals(keys, '_all', '_touched'), settings
        ), settings, bounds)) }}
    {%- elif strategy == 'affected_keys' -%}
        {{ return(hw_affected_change_set_sql(target, sql, plan, settings, bounds)) }}
    {%- elif strategy == 'signed_sum' -%}
        {{ return(hw_signed_change_set_sql(target, sql, plan, settings, columns)) }}
    {%- elif strategy == 'history' -%}
        {{ return(hw_history_change_set_sql(target, sql, plan, settings)) }}
    {%- endif -%}
{% endmacro %}


{#- The keys that the changes touch, as rows of the key's columns in the model: what a run computes anew. None where a run computes
    nothing anew but adds or compares rows. -#}
{% macro hw_affected_keys_sql(strategy, sql, plan, settings) %}
    {%- set touched = [] -%}
    {%- if strategy == 'change_feed' and settings.get('latest_by') -%}
        {%- do touched.append(hw_changed_rows_sql(sql, plan, hw_affected_key_columns(strategy, plan, settings))) -%}
    {%- elif strategy == 'affected_keys' -%}
        {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
        {%- for spec in affected if spec.source in plan.ranges and plan.ranges[spec.source].rows > 0 -%}
            {%- set range = plan.ranges[spec.source] -%}
            {%- set feed = hw_feed_of_range(spec.source, range) -%}
            {%- if spec.via -%}
                {%- do touched.append('select ' ~ hw_key_columns(spec, '_via') ~ ' from ' ~ hw_via_sql(spec, affected) ~ ' as _via left semi join ' ~ feed ~ ' as _feed on ' ~ hw_equals(spec.on, '_via', '_feed')) -%}
            {%- else -%}
                {%- do touched.append('select ' ~ hw_key_columns(spec, '_feed') ~ ' from ' ~ feed ~ ' as _feed') -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return('select distinct * from (' ~ touched | join('\nunion all ') ~ ')' if touched else none) }}
{% endmacro %}


{#- The columns of `_touched`: the key of the affected() inputs; in a `latest_by` model its key, and what `prune_by` says that it determines. -#}
{% macro hw_affected_key_columns(strategy, plan, settings) %}
    {%- if strategy == 'affected_keys' -%}
        {{ return((plan.inputs | selectattr('kind', 'equalto', 'affected') | list)[0].key | list | sort) }}
    {%- endif -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set columns = keys | list -%}
    {%- for column in hw_as_list(settings.get('prune_by')) if column | lower not in columns | map('lower') -%}{%- do columns.append(column) -%}{%- endfor -%}
    {{ return(columns) }}
{% endmacro %}
