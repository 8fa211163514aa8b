{#- Maintains every table as its policy requires: a second run has no work. `dry_run` prints the plan. -#}
{% macro maintain(select=none, dry_run=true, reason=none) %}
    {%- if not dry_run -%}{%- do hw_require_reason('maintain', reason) -%}{%- endif -%}
    {%- do check_tables() -%}
    {%- set now = (modules.datetime.datetime.now(modules.pytz.utc).timestamp() * 1000) | int -%}
    {%- set plans = hw_maintenance_plans(select, now) -%}
    {%- set due = plans | selectattr('steps') | list -%}
    {{ print(hw_maintenance_lines(plans, dry_run) | join('\n')) }}
    {%- if due and not dry_run -%}
        {%- set failed = [] -%}
        {%- for plan in due -%}
            {{ print('maintain: ' ~ loop.index ~ ' of ' ~ due | length ~ ', ' ~ plan.state.name) }}
            {%- set is_done = hw_drop_unused_table(plan, reason) if plan.is_unused else hw_maintain_table(plan, reason) -%}
            {%- if not is_done -%}{%- do failed.append(plan.state.name) -%}{%- endif -%}
        {%- endfor -%}
        {%- set vacuumed = due | selectattr('vacuums') | map(attribute='state.name') | list -%}
        {%- set lost = ' Versions of ' ~ vacuumed | join(', ') ~ ' that needed the vacuumed files can no longer be read.' -%}
        {{ print('undo: there is none, and none is needed: no row was changed.' ~ (lost if vacuumed else '')) }}
        {%- if failed -%}
            {{ hw_raise('HW_MAINTENANCE_FAILED',
                'maintain: failed for ' ~ failed | join(', ') ~ ', see above; ' ~ (due | length - failed | length)
                ~ ' other tables are done. What is left, the next maintain does.'
            ) }}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}


{#- Returns the plan as lines: each table with its steps, each table that is not vacuumed with the reason, and a summary. -#}
{% macro hw_maintenance_lines(plans, dry_run) %}
    {%- set lines = [] -%}
    {%- set due = plans | selectattr('steps') | list -%}
    {%- for plan in due -%}
        {%- set state = plan.state -%}
        {%- do lines.append(state.name ~ ' (version ' ~ state.version ~ ': ' ~ hw_state_text(state, plan.policy) ~ ')') -%}
        {%- for step in plan.steps -%}
            {%- do lines.append('  ' ~ step.what ~ ': ' ~ step.why ~ (('\n    ' ~ step.sql) if dry_run else '')) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- for plan in plans if plan.kept -%}{%- do lines.append(plan.state.name ~ ': ' ~ plan.kept) -%}{%- endfor -%}
    {%- set work = due | length ~ ' to be maintained' if due else 'nothing to do' -%}
    {%- set how = '; dry_run: false and a reason do it' if due and dry_run else '' -%}
    {%- do lines.append('maintain: ' ~ plans | length ~ ' tables, ' ~ work ~ how) -%}
    {{ return(lines) }}
{% endmacro %}


{#- Returns for each table its state, its policy, and the steps that the policy requires: what, why, sql, settings. -#}
{% macro hw_maintenance_plans(select, now) %}
    {%- set states = {} -%}
    {%- set policies = {} -%}
    {%- for name, node in hw_table_nodes(select).items() -%}
        {%- set relation = adapter.get_relation(none, node.schema, node.identifier or node.alias) -%}
        {%- if relation is not none and relation.is_delta -%}
            {%- do states.update({name: hw_table_state(name, hw_named(relation))}) -%}
            {%- do policies.update({name: adapter.policy.policy_of(node.config)}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set plans = hw_plans_of_unused_tables(states, policies, select) -%}
    {%- set others = namespace(states=none) -%}
    {%- for name, policy in policies.items() -%}
        {%- set state = states[name] -%}
        {%- set plan = {'state': state, 'policy': policy, 'steps': [], 'kept': none, 'vacuums': false} -%}
        {%- if policy.enabled -%}
            {%- do plan.steps.extend(hw_rewrite_steps(state, policy)) -%}
            {#- checks the readers in all other tables only if there is something to vacuum -#}
            {%- if policy.vacuum and adapter.maintenance.has_removed(state.removals, state.vacuumed_before, now - state.retention) -%}
                {%- if others.states is none -%}{%- set others.states = hw_states_of_all(states) -%}{%- endif -%}
                {%- set needed = hw_vacuum_needs(state, others.states, now) -%}
                {%- if needed -%}
                    {%- do plan.update({'kept': 'not vacuumed: ' ~ needed}) -%}
                {%- else -%}
                    {%- do plan.steps.append(hw_vacuum_step(state, now, state.log_is_whole)) -%}
                    {%- do plan.update({'vacuums': true}) -%}
                {%- endif -%}
            {%- endif -%}
        {%- endif -%}
        {%- do plans.append(plan) -%}
    {%- endfor -%}
    {{ return(plans) }}
{% endmacro %}


{#- Adds the hidden tables of the tables to their states and policies. Returns plans that drop unused hidden tables: those whose model is
    gone or does not need them any more. -#}
{% macro hw_plans_of_unused_tables(states, policies, select) %}
    {%- set plans = [] -%}
    {%- set schemas = [] -%}
    {%- for name in states -%}{%- do schemas.append(name.split('.')[0]) -%}{%- endfor -%}
    {%- for schema in schemas | unique -%}
        {%- for hidden in hw_hidden_tables_in(schema) -%}
            {%- set owner, name = schema ~ '.' ~ hidden.of, schema ~ '.' ~ hidden.identifier -%}
            {%- set proof = hw_proof_of(states.get(owner), schema, hidden.of) -%}
            {%- set is_used = hidden.number <= adapter.named_tables.used_hidden_tables(proof) -%}
            {%- if is_used and owner in states -%}
                {%- do states.update({name: hw_table_state(name, hidden.relation)}) -%}
                {%- do policies.update({name: policies[owner].model_copy(update={'where': none, 'zorder_by': []})}) -%}
            {%- elif not is_used and (owner in states or not select) -%}
                {%- set step = {'what': 'drop', 'why': 'no table uses this hidden table', 'sql': 'drop table ' ~ hidden.relation,
                    'settings': {}} -%}
                {%- set policy = adapter.policy.policy_of({}) -%}
                {%- do plans.append({'state': hw_table_state(name, hidden.relation), 'policy': policy, 'steps': [step],
                    'kept': none, 'vacuums': false, 'is_unused': true}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(plans) }}
{% endmacro %}


{#- Returns the proof that a table notes; none if the table does not exist. `state`: the table's, if it was read. -#}
{% macro hw_proof_of(state, schema, identifier) %}
    {%- set relation = adapter.get_relation(none, schema, identifier) if not state else none -%}
    {%- set properties = state.properties if state else hw_properties_of(relation) if relation is not none and relation.is_delta else {} -%}
    {{ return(properties.get('headwaters.proof')) }}
{% endmacro %}


{#- Returns whether the step succeeded. -#}
{% macro hw_drop_unused_table(plan, reason) %}
    {%- set state = plan.state -%}
    {%- set operation = hw_begin_operation('maintain', state.name, reason, ['drop'], state.version, state.detail, none) -%}
    {%- set failure = adapter.failure_of(plan.steps[0].sql) -%}
    {%- do hw_finish_operation(operation, none, 'failed' if failure else 'done') -%}
    {{ print(state.name ~ ': ' ~ ('drop FAILED: ' ~ failure if failure else 'dropped')) }}
    {{ return(not failure) }}
{% endmacro %}


{#- Returns the rewrites that the policy requires, as steps. -#}
{% macro hw_rewrite_steps(state, policy) %}
    {%- set steps = [] -%}
    {%- set small = hw_small_files(state, policy.small_bytes) -%}
    {%- for due in adapter.maintenance.rewrites_due(policy, state.rows, state.deleted_rows, small.files, state.added) -%}
        {%- set purges = due.what == 'purge' -%}
        {%- set sql = 'reorg table ' ~ state.relation ~ ' apply (purge)' if purges else hw_optimize_sql(state, policy) -%}
        {%- set settings = {} if purges else hw_optimize_settings(state, policy) -%}
        {%- do steps.append({'what': due.what, 'why': due.why, 'sql': sql, 'settings': settings}) -%}
    {%- endfor -%}
    {{ return(steps) }}
{% endmacro %}


{#- Returns one line, since a plan prints it. -#}
{% macro hw_optimize_sql(state, policy) -%}
    optimize {{ state.relation }}
    {%- if policy.where %} where {{ hw_bracketed(policy.where) }}{% endif -%}
    {%- if policy.zorder_by %} zorder by ({{ hw_quoted(policy.zorder_by) | join(', ') }}){% endif -%}
{%- endmacro %}


{#- Returns Delta's settings of OPTIMIZE; clustering and Z-order have separate ones. -#}
{% macro hw_optimize_settings(state, policy) %}
    {%- if hw_as_names(state.detail['clusteringColumns']) or policy.zorder_by -%}{{ return({}) }}{%- endif -%}
    {%- set target = policy.target_bytes -%}
    {#- a commit for every so many bytes: a writer conflicts only with the current part -#}
    {%- set settings = {'minFileSize': policy.small_bytes, 'maxFileSize': target, 'batchSize': 16 * target} -%}
    {#- rows that are only marked as deleted make a read a third to a half slower; rewriting one file is cheap -#}
    {%- if state.bytes <= target -%}{%- do settings.update({'maxDeletedRowsRatio': 0.0}) -%}{%- endif -%}
    {{ return(settings) }}
{% endmacro %}


{#- LITE reads the files to remove from the log instead of listing the folder. It needs the log from the table's first commit. -#}
{% macro hw_vacuum_step(state, now, lite) %}
    {{ return({
        'what': 'vacuum', 'why': 'files that left the table before ' ~ hw_utc(now - state.retention) ~ ' are needed by nobody',
        'sql': 'vacuum ' ~ state.relation ~ (' lite' if lite else ''), 'settings': {},
    }) }}
{% endmacro %}


{#- Returns whether all steps succeeded: a failing table does not stop the maintenance of the others. -#}
{% macro hw_maintain_table(plan, reason) %}
    {%- set state = plan.state -%}
    {%- set steps = plan.steps | map(attribute='what') | list -%}
    {%- set operation = hw_begin_operation('maintain', state.name, reason, steps, state.version, state.detail, none) -%}
    {%- do hw_record_state(state, plan.policy) -%}
    {%- set done = [] -%}
    {%- set failure = namespace(line=none) -%}
    {%- for step in plan.steps if failure.line is none -%}
        {%- set failure.line = hw_failure_of_step(step) -%}
        {%- do done.append(step.what if failure.line is none else step.what ~ ' FAILED: ' ~ failure.line) -%}
    {%- endfor -%}
    {%- set after = hw_table_state(state.name, state.relation) -%}
    {%- do hw_record_state(after, plan.policy) -%}
    {%- do hw_finish_operation(operation, after.version, 'done' if failure.line is none else 'failed') -%}
    {{ print(
        state.name ~ ': ' ~ done | join(', ') ~ '\n  before: ' ~ hw_state_text(state, plan.policy)
        ~ '\n  after:  ' ~ hw_state_text(after, plan.policy)
    ) }}
    {{ return(failure.line is none) }}
{% endmacro %}


{#- Runs a step with its settings; returns its error line, or none. -#}
{% macro hw_failure_of_step(step) %}
    {%- for name, value in step.settings.items() -%}
        {%- do run_query('set `spark.databricks.delta.optimize.' ~ name ~ '` = ' ~ value) -%}
    {%- endfor -%}
    {%- set line = adapter.failure_of(step.sql) -%}
    {%- for name in step.settings -%}{%- do run_query('reset `spark.databricks.delta.optimize.' ~ name ~ '`') -%}{%- endfor -%}
    {{ return(line) }}
{% endmacro %}


{% macro hw_state_text(state, policy) %}
    {%- set small = hw_small_files(state, policy.small_bytes) -%}
    {%- set files = state.files ~ ' files, ' ~ small.files ~ ' of them small, ' ~ hw_size(state.bytes) -%}
    {{ return(files ~ ', ' ~ state.rows ~ ' rows, ' ~ state.deleted_rows ~ ' marked as deleted') }}
{% endmacro %}


{#- Returns a row of ops.table_state: the state before or after maintenance. -#}
{% macro hw_record_state(state, policy) %}
    {%- set name = hw_ops_name('table_state') -%}
    {%- do hw_create_ops_table('table_state') -%}
    {%- do run_query(hw_insert_table_state_sql(name, state, hw_small_files(state, policy.small_bytes))) -%}
{% endmacro %}


{% macro hw_insert_table_state_sql(name, state, small) -%}
    insert into {{ name }} by name select
        current_timestamp() as at,
        {{ hw_literal(state.name) }} as table_name,
        {{ state.version }} as version,
        {{ state.files }} as files,
        {{ small.files }} as small_files,
        {{ state.bytes }} as bytes,
        {{ state.rows }} as row_count,
        {{ state.deleted_rows }} as deleted_rows,
        {{ state.versions }} as versions,
        {{ state.added }} as files_added,
        {{ hw_moment_sql(state.optimized_at) }} as optimized_at,
        {{ hw_moment_sql(state.vacuumed_before) }} as vacuumed_before,
        {{ hw_literal(invocation_id) }} as invocation_id
{%- endmacro %}


{% macro hw_moment_sql(milliseconds) -%}
    {% if milliseconds is none %}null{% else %}timestamp_millis({{ milliseconds }}){% endif %}
{%- endmacro %}
