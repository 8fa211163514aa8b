{#- Hooks of a strategy that has none of its own. -#}
{% macro hw_default__full_refresh_sql(sql, settings, columns) %}
    {{ return(sql) }}
{% endmacro %}


{% macro hw_default__changed_rows_sql(spec, range) %}
    {{ return(hw_all_rows(range, spec.source)) }}
{% endmacro %}


{#- The rows that changed among those of the table. -#}
{% macro hw_default__share_changed(relation, sql, plan, settings) %}
    {%- set rows = run_query('select count(*) from ' ~ relation).rows[0][0] | int -%}
    {{ return({'part': plan.rows, 'whole': rows, 'what': 'rows changed', 'above': adapter.most_of_rows('inserts')}) }}
{% endmacro %}


{% macro hw_default__check(where, sql, inputs, settings) %}
{% endmacro %}


{% macro hw_default__tried_rows(inputs, settings) %}
    {{ return(none) }}
{% endmacro %}


{#- What is known without a statement, where rows are neither compared whole with the table's nor put under them: `hw_apply_staged` sees
    whether the columns are the same. -#}
{% macro hw_default__facts_before_staging(target, sql, plan, settings) %}
    {{ return({'bounds': [], 'same_columns': true}) }}
{% endmacro %}


{% macro hw_default__inspect(target, stage, keys, look, sql, settings) %}
{% endmacro %}


{% macro hw_default__before_replace(target, plan, settings) %}
{% endmacro %}


{% macro hw_default__state_properties(inputs) %}
    {{ return({}) }}
{% endmacro %}


{#- The SQL over a sample against that over its halves. -#}
{% macro hw_default__differences_sql(sql, inputs, spec, settings, columns, sample) %}
    {{ return(hw_differences_of_halves_sql(sql, inputs, spec, columns, sample)) }}
{% endmacro %}


{% macro hw_default__named_columns(sql) %}
    {{ return({}) }}
{% endmacro %}
