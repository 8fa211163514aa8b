{#- Expectations of a model, asked of the rows that are about to be written, before anything is: write, audit, publish. A row meets an expectation if the expression
    is true of it. `warn` counts; `drop` keeps the row out of the table and in `<table>_quarantine`, as if the model's SQL had a filter; `fail` ends the run, with the
    table as it was. -#}
{% macro hw_expectations(config) %}
    {{ return(hw_setting(config, 'expectations', [])) }}
{% endmacro %}


{#- Refuses expectations that cannot be; called while the project is parsed. -#}
{% macro hw_check_expectations(where, config) %}
    {%- set names = [] -%}
    {%- for rule in hw_expectations(config) -%}
        {%- for key in ['name', 'expression'] if not rule.get(key) -%}
            {{ exceptions.raise_compiler_error(where ~ ': expectations: one has no ' ~ key ~ '.') }}
        {%- endfor -%}
        {%- for key in rule if key not in ['name', 'expression', 'on_failure'] -%}
            {{ exceptions.raise_compiler_error(where ~ ": expectations: '" ~ key ~ "' of " ~ rule.name ~ ' is not a key here (allowed: name, expression, on_failure).') }}
        {%- endfor -%}
        {%- if rule.get('on_failure', 'warn') not in ['warn', 'drop', 'fail'] -%}
            {{ exceptions.raise_compiler_error(where ~ ': expectations: on_failure of ' ~ rule.name ~ " is '" ~ rule.on_failure ~ "': allowed are warn, drop and fail.") }}
        {%- elif rule.name in names -%}
            {{ exceptions.raise_compiler_error(where ~ ': expectations: two are named ' ~ rule.name ~ '.') }}
        {%- elif rule.get('on_failure') == 'drop' and config.get('incremental_strategy') in ['signed_sum', 'history'] -%}
            {{ exceptions.raise_compiler_error(where ~ ': expectations: ' ~ rule.name ~ ' drops rows, and a table of ' ~ config.get('incremental_strategy')
                ~ ' needs them all to go on: filter in the SQL, or use warn or fail.') }}
        {%- endif -%}
        {%- do names.append(rule.name) -%}
    {%- endfor -%}
    {%- if hw_expectations(config) and not (config.get('materialized') == 'incremental' and config.get('incremental_strategy') in ['change_feed', 'affected_keys', 'signed_sum', 'history']) -%}
        {{ exceptions.raise_compiler_error(where ~ ': expectations are asked of incremental models with change_feed, affected_keys, signed_sum or history, and of no others: this one is materialized: '
            ~ config.get('materialized') ~ (', incremental_strategy: ' ~ config.get('incremental_strategy') if config.get('incremental_strategy') else '') ~ '. Use data tests here.') }}
    {%- endif -%}
{% endmacro %}


{#- The model's SQL without the rows that an expectation drops: a part of what the model is, as if it had the filter itself. -#}
{% macro hw_kept_sql(sql, config) %}
    {%- set kept = hw_expectations_met(hw_expectations(config) | selectattr('on_failure', 'defined') | selectattr('on_failure', 'equalto', 'drop')) -%}
    {{ return('select * from (\n' ~ sql ~ '\n) where ' ~ kept if kept else sql) }}
{% endmacro %}


{% macro hw_expectations_met(rules) %}
    {%- set conditions = [] -%}
    {%- for rule in rules -%}{%- do conditions.append('coalesce(' ~ rule.expression ~ ', false)') -%}{%- endfor -%}
    {{ return(conditions | join(' and ')) }}
{% endmacro %}


{#- Asks the rows that are about to be written. `stage`: a table with the columns of the target and `_operation`; `unfiltered`: the SQL of such a table that
    still has the rows to be dropped. Returns a text for the run's message, such as `; positive: 2 of 10 rows (warn)`, or '' where all is well. Raises where a rule fails,
    after dropping the stage. -#}
{% macro hw_audit_staged(target, stage, unfiltered, config) %}
    {%- set rules = hw_expectations(config) -%}
    {%- set drops = rules | selectattr('on_failure', 'defined') | selectattr('on_failure', 'equalto', 'drop') | list -%}
    {%- if drops -%}{%- do hw_quarantine_dropped(target, unfiltered, drops) -%}{%- endif -%}
    {%- set counts = ["count_if(_operation <> 'delete') as asked"] -%}
    {%- for rule in rules -%}
        {%- do counts.append(('(select count(*) from ' ~ hw_quarantine_name(target) ~ ' where invocation_id = ' ~ hw_literal(invocation_id) ~ ' and array_contains(expectations, ' ~ hw_literal(rule.name) ~ '))' if rule in drops
            else "count_if(_operation <> 'delete' and not coalesce(" ~ rule.expression ~ ', false))') ~ ' as broken_' ~ loop.index) -%}
    {%- endfor -%}
    {%- set row = run_query('select ' ~ counts | join(', ') ~ ' from ' ~ stage).rows[0] -%}
    {%- set broken = [] -%}
    {%- set failed = [] -%}
    {%- set values = [] -%}
    {%- for rule in rules -%}
        {%- set count = row['broken_' ~ loop.index] | int -%}
        {%- set on_failure = rule.get('on_failure', 'warn') -%}
        {%- set asked = (row['asked'] | int) + (count if rule in drops else 0) -%}
        {%- do values.append('(' ~ [hw_literal(target.schema ~ '.' ~ target.identifier), hw_literal(rule.name), hw_literal(rule.expression), hw_literal(on_failure), asked | string, count | string, hw_literal(invocation_id)] | join(', ') ~ ')') -%}
        {%- if count -%}
            {%- do broken.append(rule.name ~ ': ' ~ count ~ ' of ' ~ asked ~ ' rows (' ~ on_failure ~ ')') -%}
            {%- if on_failure == 'fail' -%}{%- do failed.append(rule.name ~ ' (' ~ rule.expression ~ '): ' ~ count ~ ' of ' ~ asked ~ ' rows') -%}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do hw_record_expectations(values) -%}
    {%- if failed -%}
        {%- do hw_drop_staging_table(stage) -%}
        {{ exceptions.raise_compiler_error(target ~ ' does not meet ' ~ failed | join('; ') ~ '. The table was left as it is; ops.expectations has the counts.') }}
    {%- endif -%}
    {{ return('; ' ~ broken | join('; ') if broken else '') }}
{% endmacro %}


{#- The same for a repair, of the rows that it would write; drops the stage that it read them from. -#}
{% macro hw_refuse_failing(operation, target, rows, stage=none) %}
    {%- set rules = hw_expectations(target.node.config) | selectattr('on_failure', 'defined') | selectattr('on_failure', 'equalto', 'fail') | list -%}
    {%- if rules -%}
        {%- set counts = [] -%}
        {%- for rule in rules -%}{%- do counts.append('count_if(not coalesce(' ~ rule.expression ~ ', false)) as broken_' ~ loop.index) -%}{%- endfor -%}
        {%- set row = run_query('select ' ~ counts | join(', ') ~ ' from ' ~ rows).rows[0] -%}
        {%- set failed = [] -%}
        {%- for rule in rules -%}
            {%- set broken = row['broken_' ~ loop.index] | int -%}
            {%- if broken -%}{%- do failed.append(rule.name ~ ' (' ~ rule.expression ~ '): ' ~ broken ~ ' rows') -%}{%- endif -%}
        {%- endfor -%}
        {%- if failed -%}
            {%- if stage -%}{%- do hw_drop_staging_table(stage) -%}{%- endif -%}
            {{ exceptions.raise_compiler_error(operation ~ ': what ' ~ target.name ~ ' would get does not meet ' ~ failed | join('; ') ~ '. Nothing was changed.') }}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_record_expectations(values) %}
    {%- set schema = hw_ops_schema() | trim -%}
    {%- set name = hw_quoted_name(schema, 'expectations') -%}
    {%- if adapter.get_relation(none, schema, 'expectations') is none -%}
        {%- do run_query('create schema if not exists ' ~ hw_quote(schema)) -%}
        {%- do run_query('create table if not exists ' ~ name ~ " (at timestamp comment 'When the rows were asked, UTC.', table_name string, expectation string, expression string, on_failure string, "
            ~ "rows_asked bigint, rows_broken bigint, invocation_id string) using delta comment 'One row per expectation and run.'") -%}
    {%- endif -%}
    {%- do run_query('insert into ' ~ name ~ ' select current_timestamp(), * from values ' ~ values | join(', ')) -%}
{% endmacro %}


{% macro hw_quarantine_name(target) %}
    {{ return(hw_quoted_name(target.schema, target.identifier ~ '_quarantine')) }}
{% endmacro %}


{#- Puts rows that an expectation drops into the quarantine beside the table, as JSON with the names of the rules. -#}
{% macro hw_quarantine_dropped(target, unfiltered, rules) %}
    {%- set names = [] -%}
    {%- for rule in rules -%}{%- do names.append('if(coalesce(' ~ rule.expression ~ ', false), null, ' ~ hw_literal(rule.name) ~ ')') -%}{%- endfor -%}
    {%- if adapter.get_relation(none, target.schema, target.identifier ~ '_quarantine') is none -%}
        {%- do run_query('create table if not exists ' ~ hw_quarantine_name(target) ~ " (at timestamp comment 'When it was kept out, UTC.', expectations array<string> comment 'Those that it does not meet.', "
            ~ "record string comment 'The row as JSON.', invocation_id string) using delta comment 'One row per row that was kept out of the table, and run.'") -%}
    {%- endif -%}
    {%- do run_query('insert into ' ~ hw_quarantine_name(target) ~ ' select current_timestamp(), array_compact(array(' ~ names | join(', ') ~ ')), to_json(struct(* except (_operation))), ' ~ hw_literal(invocation_id)
        ~ ' from (\n' ~ unfiltered ~ "\n) where _operation <> 'delete' and not (" ~ hw_expectations_met(rules) ~ ')') -%}
{% endmacro %}
