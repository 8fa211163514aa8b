{#- Returns the expectations with this action on failure. -#}
{% macro hw_expectations_that(config, on_failure) %}
    {{ return(adapter.analysis.expectations_of(config) | selectattr('on_failure', 'equalto', on_failure) | list) }}
{% endmacro %}


{#- Evaluates the expectations on the rows to be written. `stage`: a table with the columns of the target and `_operation`; `unfiltered`:
    the SQL of such a table with the rows to be dropped. Returns a text for the run's message, such as `; positive: 2 of 10 rows (warn)`, or
    '' if all rows meet all expectations. If a rule fails, drops the staging table and raises. -#}
{% macro hw_audit_staged(target, stage, unfiltered, config) %}
    {%- set rules = adapter.analysis.expectations_of(config) -%}
    {%- set drops = hw_expectations_that(config, 'drop') -%}
    {%- if drops -%}{%- do hw_quarantine_dropped(target, unfiltered, drops) -%}{%- endif -%}
    {%- set row = run_query(hw_count_broken_sql(target, stage, rules)).rows[0] -%}
    {%- set results = [] -%}
    {%- set broken = [] -%}
    {%- set failed = [] -%}
    {%- for rule in rules -%}
        {%- set count = row['broken_' ~ loop.index] | int -%}
        {%- set evaluated = (row['asked'] | int) + (count if rule in drops else 0) -%}
        {%- set share = count ~ ' of ' ~ evaluated ~ ' rows' -%}
        {%- do results.append({'rule': rule, 'evaluated': evaluated, 'broken': count}) -%}
        {%- if count -%}{%- do broken.append(rule.name ~ ': ' ~ share ~ ' (' ~ rule.on_failure ~ ')') -%}{%- endif -%}
        {%- if count and rule.on_failure == 'fail' -%}
            {%- do failed.append(rule.name ~ ' (' ~ rule.expression ~ '): ' ~ share) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do hw_record_expectations(target, results) -%}
    {%- if failed -%}
        {%- do hw_drop_staging_table(stage) -%}
        {{ hw_raise('HW_EXPECTATIONS_FAILED',
            target ~ ' does not meet ' ~ failed | join('; ') ~ '. The table was left as it is; ops.expectations has the counts.'
        ) }}
    {%- endif -%}
    {{ return('; ' ~ broken | join('; ') if broken else '') }}
{% endmacro %}


{#- Counts all rows, and the rows that break each rule; dropped rows are already in the quarantine. -#}
{% macro hw_count_broken_sql(target, stage, rules) -%}
    select
        count_if(_operation <> 'delete') as asked
        {%- for rule in rules %},
        {% if rule.on_failure == 'drop' -%}
        (
            select count(*)
            from {{ hw_quarantine_name(target) }}
            where invocation_id = {{ hw_literal(invocation_id) }} and array_contains(expectations, {{ hw_literal(rule.name) }})
        )
        {%- else -%}
        count_if(_operation <> 'delete' and not {{ adapter.analysis.is_met(rule) }})
        {%- endif %} as broken_{{ loop.index }}
        {%- endfor %}
    from {{ stage }}
{%- endmacro %}


{#- Evaluates the expectations on the rows that a repair would write; drops the staging table `stage`. -#}
{% macro hw_refuse_failing(operation, target, rows, stage=none) %}
    {%- set rules = hw_expectations_that(target.node.config, 'fail') -%}
    {%- if not rules -%}{{ return(none) }}{%- endif -%}
    {%- set row = run_query(hw_count_failing_sql(rows, rules)).rows[0] -%}
    {%- set failed = [] -%}
    {%- for rule in rules -%}
        {%- set broken = row['broken_' ~ loop.index] | int -%}
        {%- if broken -%}{%- do failed.append(rule.name ~ ' (' ~ rule.expression ~ '): ' ~ broken ~ ' rows') -%}{%- endif -%}
    {%- endfor -%}
    {%- if failed -%}
        {%- if stage -%}{%- do hw_drop_staging_table(stage) -%}{%- endif -%}
        {{ hw_raise('HW_EXPECTATIONS_FAILED',
            operation ~ ': what ' ~ target.name ~ ' would get does not meet ' ~ failed | join('; ') ~ '. Nothing was changed.'
        ) }}
    {%- endif -%}
{% endmacro %}


{% macro hw_count_failing_sql(rows, rules) -%}
    select
        {% for rule in rules -%}
        count_if(not {{ adapter.analysis.is_met(rule) }}) as broken_{{ loop.index }}{{ ', ' if not loop.last }}
        {%- endfor %}
    from {{ rows }}
{%- endmacro %}


{% macro hw_record_expectations(target, results) %}
    {%- set name = hw_ops_name('expectations') -%}
    {%- do hw_create_ops_table('expectations') -%}
    {%- do run_query(hw_insert_expectations_sql(name, target, results)) -%}
{% endmacro %}


{% macro hw_insert_expectations_sql(name, target, results) -%}
    insert into {{ name }} by name select current_timestamp() as at, * from values
    {%- for result in results %} (
        {{ hw_literal(target.schema ~ '.' ~ target.identifier) }},
        {{ hw_literal(result.rule.name) }},
        {{ hw_literal(result.rule.expression) }},
        {{ hw_literal(result.rule.on_failure) }},
        {{ result.evaluated }},
        {{ result.broken }},
        {{ hw_literal(invocation_id) }}
    ){{ ',' if not loop.last }}
    {%- endfor %} as results (table_name, expectation, expression, on_failure, rows_asked, rows_broken, invocation_id)
{%- endmacro %}


{% macro hw_quarantine_name(target) %}
    {{ return(hw_quoted_name(target.schema, target.identifier ~ '_quarantine')) }}
{% endmacro %}


{#- Writes rows that an expectation drops into the table's quarantine, as JSON with the names of the rules. -#}
{% macro hw_quarantine_dropped(target, unfiltered, rules) %}
    {%- if adapter.get_relation(none, target.schema, target.identifier ~ '_quarantine') is none -%}
        {%- do run_query(hw_create_quarantine_sql(target)) -%}
    {%- endif -%}
    {%- do run_query(hw_insert_quarantine_sql(target, unfiltered, rules)) -%}
{% endmacro %}


{% macro hw_create_quarantine_sql(target) -%}
    create table if not exists {{ hw_quarantine_name(target) }} (
        at timestamp comment 'When it was kept out, UTC.',
        expectations array<string> comment 'Those that it does not meet.',
        record string comment 'The row as JSON.',
        invocation_id string
    ) using delta comment 'One row per row that was kept out of the table, and run.'
{%- endmacro %}


{% macro hw_insert_quarantine_sql(target, unfiltered, rules) -%}
    insert into {{ hw_quarantine_name(target) }} by name select
        current_timestamp() as at,
        array_compact(array(
            {%- for rule in rules %}
            if({{ adapter.analysis.is_met(rule) }}, null, {{ hw_literal(rule.name) }}){{ ',' if not loop.last }}
            {%- endfor %}
        )) as expectations,
        to_json(struct(* except (_operation))) as record,
        {{ hw_literal(invocation_id) }} as invocation_id
    from (
{{ unfiltered }}
    ) where _operation <> 'delete' and not ({{ adapter.analysis.all_met(rules) }})
{%- endmacro %}
