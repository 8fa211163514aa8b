{#- What the next run of a model does and why: the one place where that is decided. Changes nothing.
    Returns choice (`skip`, `replace`, `incremental`), reason, inputs (the pinned inputs of the SQL), ranges (for each changing input's
    source: what `hw_range` says), lookups (the same for lookups), holds (the versions that the target holds), same_sql (the model's SQL built
    it), interrupted (the name of a run that did not finish), and seen (the newest commit of the target, which the plan is made from). -#}
{% macro hw_plan_run(strategy, relation, exists, sql, settings, full_refresh=false) %}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- for spec in inputs if spec.kind == 'affected' -%}
        {%- do spec.update({'stored': hw_partitions_among(spec.key, settings), 'read': hw_columns_read(spec.source, inputs)}) -%}
    {%- endfor -%}
    {%- set plan = {'choice': 'replace', 'reason': '', 'inputs': inputs, 'ranges': {}, 'lookups': {}, 'holds': none, 'interrupted': none, 'seen': none, 'same_sql': false} -%}
    {%- if not exists -%}
        {{ return(dict(plan, reason='first run')) }}
    {%- elif flags.EMPTY -%}
        {{ return(dict(plan, choice='skip', reason='no changes: --empty reads no rows')) }}
    {%- elif inputs | selectattr('version', 'none') | list -%}
        {{ return(dict(plan, reason='a sample was asked for')) }}
    {%- elif full_refresh -%}
        {{ return(dict(plan, reason='full refresh asked for')) }}
    {%- endif -%}
    {%- set state = hw_applied_state(relation) -%}
    {%- do plan.update({'holds': state.inputs, 'detail': state.detail}) -%}
    {%- if state.inputs is none -%}
        {{ return(dict(plan, reason='the table does not say which versions of its inputs it holds')) }}
    {%- elif state.sql != hw_built_by(strategy, sql, settings) -%}
        {{ return(dict(plan, reason='the SQL and settings of the model are not what built the table')) }}
    {%- endif -%}
    {%- if hw_as_names(state.detail['partitionColumns']) | map('lower') | list != hw_as_list(settings.get('partition_by')) | map('lower') | list and not (hw_as_list(settings.get('partition_by')) and hw_as_names(state.detail['clusteringColumns'])) -%}
        {{ return(dict(plan, reason='the table is not partitioned as the model says')) }}
    {%- endif -%}
    {%- do plan.update({'same_sql': true}) -%}
    {%- set applied = hw_applied_versions(relation, state) -%}
    {%- set holds = applied.inputs -%}
    {%- if holds is none -%}
        {{ return(dict(plan, reason='the table does not say which run wrote it')) }}
    {%- endif -%}
    {%- do plan.update({'holds': holds, 'interrupted': applied.interrupted, 'seen': applied.seen, 'commits': applied.commits}) -%}
    {%- if applied.foreign and hw_on_foreign_write(relation, applied.foreign, settings) == 'rebuild' -%}
        {{ return(dict(plan, reason='the table was changed by ' ~ applied.foreign ~ ', which is no run of its model')) }}
    {%- endif -%}
    {%- set changed_rows = namespace(total=0) -%}
    {%- for spec in inputs -%}
        {%- set known = plan.lookups if spec.kind == 'lookup' else plan.ranges -%}
        {%- if spec.source not in holds -%}
            {{ return(dict(plan, reason=spec.source ~ ' is a new input')) }}
        {%- elif spec.source not in known and (holds[spec.source].version != spec.version or holds[spec.source].at != spec.at) -%}
            {%- set range = hw_range(spec, holds[spec.source]) -%}
            {%- do known.update({spec.source: range}) -%}
            {%- if spec.kind == 'lookup' -%}
                {%- if (range.rows > 0 or range.gap) and settings.get('on_lookup_change', 'rebuild') == 'rebuild' -%}
                    {{ return(dict(plan, reason='lookup ' ~ spec.source ~ ' changed')) }}
                {%- endif -%}
            {%- elif range.gap -%}
                {%- do hw_fail_on_gap(strategy, relation, range.gap, settings) -%}
                {{ return(dict(plan, reason=range.gap)) }}
            {%- else -%}
                {%- set changed_rows.total = changed_rows.total + range.rows -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do plan.update({'rows': changed_rows.total}) -%}
    {%- if (plan.ranges.values() | list + plan.lookups.values() | list) | selectattr('columns_added') | list
        and hw_column_names(hw_columns_of_full_refresh(strategy, sql, settings)) != hw_column_names(adapter.get_columns_in_relation(relation)) -%}
        {{ return(dict(plan, reason='an input has a new column')) }}
    {%- endif -%}
    {%- if changed_rows.total == 0 -%}
        {{ return(dict(plan, choice='skip', reason='no changes')) }}
    {%- endif -%}
    {#- a small change needs no question: only what may be a large share of the work is compared with all of it -#}
    {%- if changed_rows.total > 10000 -%}
        {%- set share = hw_share_changed(strategy, relation, sql, plan, settings) -%}
        {%- if share.gap -%}
            {%- do hw_fail_on_gap(strategy, relation, share.gap, settings) -%}
            {{ return(dict(plan, reason=share.gap)) }}
        {%- endif -%}
        {%- if share.part > share.whole * (share.above if settings.get('replace_above') is none else settings.get('replace_above')) -%}
            {%- set percent = [100 * share.part / ([share.whole, 1] | max), 100] | min -%}
            {{ return(dict(plan, reason=('%.1f %% of the %s' if percent < 1 else '%.0f %% of the %s') | format(percent, share.what))) }}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(plan, choice='incremental', reason=changed_rows.total ~ ' rows changed')) }}
{% endmacro %}


{#- The columns of an affected() input that its changes are read for: keys, and what leads to them. The rest is read at its pinned version. -#}
{% macro hw_columns_read(source, inputs) %}
    {%- set columns = [] -%}
    {%- for spec in inputs if spec.source == source and spec.kind == 'affected' -%}
        {%- do columns.extend(spec.on if spec.via else spec.key.values()) -%}
    {%- endfor -%}
    {{ return(columns | map('lower') | list) }}
{% endmacro %}


{#- A history tells more than its input still does, so it is not rebuilt unless somebody says so. -#}
{% macro hw_on_gap(strategy, settings) %}
    {{ return(settings.get('on_gap') or ('fail' if strategy == 'history' else 'rebuild')) }}
{% endmacro %}


{#- Ends the run at a gap, unless the model is to be rebuilt. -#}
{% macro hw_fail_on_gap(strategy, relation, gap, settings) %}
    {%- if hw_on_gap(strategy, settings) == 'fail' -%}
        {{ exceptions.raise_compiler_error("The changes that " ~ relation ~ " has to follow are not there: " ~ gap ~ ". " ~ hw_left_as_it_is(strategy, relation)) }}
    {%- endif -%}
{% endmacro %}


{% macro hw_left_as_it_is(strategy, relation) %}
    {{ return(
        'on_gap is fail' ~ (' where a history does not say otherwise' if strategy == 'history' else '') ~ ', so the table was left as it is; `dbt run --full-refresh --select '
        ~ relation.identifier ~ '` rebuilds it' ~ (' from what the feed still has. Take a backup before.' if strategy == 'history' else '.')
    ) }}
{% endmacro %}


{#- How much of what a full refresh does the changes make an incremental run do again: the keys that are computed anew, the rows of the
    input that are added up, or the rows of the table that may be written. Returns part, whole, what, their name, and above: the share
    above which a replacement is cheaper. Those of change_feed are what `make bench-incremental` saw; the others are not measured. -#}
{% macro hw_share_changed(strategy, relation, sql, plan, settings) %}
    {%- if strategy == 'affected_keys' -%}
        {%- set reading = hw_read_changes('select (select count(*) from (\n' ~ hw_affected_keys_sql(strategy, sql, plan, settings) ~ '\n)) as touched, (select approx_count_distinct(struct('
            ~ hw_quoted(hw_affected_key_columns(strategy, plan, settings)) | join(', ') ~ ')) from ' ~ relation ~ ') as present', plan) -%}
        {%- if reading.gap -%}{{ return({'gap': reading.gap}) }}{%- endif -%}
        {%- set row = reading.rows[0] -%}
        {{ return({'part': row['touched'] | int, 'whole': row['present'] | int, 'what': 'keys touched', 'above': 0.3}) }}
    {%- elif strategy == 'signed_sum' -%}
        {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'signed') | list)[0] -%}
        {{ return({'part': plan.rows, 'whole': run_query('select count(*) from ' ~ hw_input_sql(spec)).rows[0][0] | int, 'what': 'rows of ' ~ spec.source ~ ' changed', 'above': 0.5}) }}
    {%- endif -%}
    {%- set share = {'part': plan.rows, 'whole': run_query('select count(*) from ' ~ relation).rows[0][0] | int, 'what': 'rows changed', 'above': 1.0} -%}
    {#- rows that only came are appended, however many -#}
    {%- if strategy == 'history' or not plan.ranges.values() | rejectattr('inserts_only') | list -%}
        {{ return(share) }}
    {%- elif 0.01 * share.whole < share.part <= 0.05 * share.whole and settings.get('replace_above') is none and not settings.get('latest_by') -%}
        {#- a merge reads every row between the least and the greatest that changed -#}
        {%- set columns = hw_as_list(settings.get('unique_key')) + hw_prune_columns(settings) -%}
        {%- set reading = hw_read_changes(hw_affected_bounds_sql(relation, hw_changed_rows_sql(sql, plan, columns), columns, false), plan) -%}
        {%- if reading.gap -%}{{ return({'gap': reading.gap}) }}{%- endif -%}
        {%- set within = hw_within_bounds(hw_affected_bounds(reading.rows[0], columns, false)) -%}
        {%- if 2 * (run_query('select count(*) from ' ~ relation ~ ' where ' ~ within).rows[0][0] | int) > share.whole -%}
            {{ return(dict(share, above=0.01, what='rows changed, all over the table')) }}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(share, above=0.05)) }}
{% endmacro %}


{% macro hw_columns_of_full_refresh(strategy, sql, settings) %}
    {%- set given = adapter.get_column_schema_from_query(sql) -%}
    {{ return(given if strategy in ['change_feed', 'affected_keys'] else adapter.get_column_schema_from_query(hw_full_refresh_sql(strategy, sql, settings, given))) }}
{% endmacro %}
