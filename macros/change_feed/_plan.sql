{#- What the next run of a model does and why: the one place where that is decided. Changes nothing.
    Returns choice (`skip`, `replace`, `incremental`), reason, inputs (the pinned inputs of the SQL), ranges (for each changing input's
    source: what `_range` says), lookups (the same for lookups), and holds (the versions that the target holds). -#}
{% macro _plan(strategy, relation, exists, sql, settings, full_refresh=false) %}
    {%- set inputs = _inputs_of(sql) -%}
    {%- set plan = {'choice': 'replace', 'reason': '', 'inputs': inputs, 'ranges': {}, 'lookups': {}, 'holds': none, 'recovered': false} -%}
    {%- if not exists -%}
        {{ return(dict(plan, reason='first run')) }}
    {%- elif flags.EMPTY -%}
        {{ return(dict(plan, choice='skip', reason='no changes: --empty reads no rows')) }}
    {%- elif inputs | selectattr('version', 'none') | list -%}
        {{ return(dict(plan, reason='a sample was asked for')) }}
    {%- elif full_refresh -%}
        {{ return(dict(plan, reason='full refresh asked for')) }}
    {%- endif -%}
    {%- set state = _state(relation) -%}
    {%- do plan.update({'holds': state.inputs, 'detail': state.detail}) -%}
    {%- if state.inputs is none -%}
        {{ return(dict(plan, reason='the table does not say which versions of its inputs it holds')) }}
    {%- elif state.sql != _built_by(strategy, sql, settings) -%}
        {{ return(dict(plan, reason='the SQL and settings of the model are not what built the table')) }}
    {%- endif -%}
    {%- if _as_names(state.detail['partitionColumns']) != _as_list(settings.get('partition_by')) and not (_as_list(settings.get('partition_by')) and _as_names(state.detail['clusteringColumns'])) -%}
        {{ return(dict(plan, reason='the table is not partitioned as the model says')) }}
    {%- endif -%}
    {%- set holds = _recovered_inputs(relation, state) -%}
    {%- if holds is none -%}
        {{ return(dict(plan, reason='its history does not tell which versions of its inputs the table holds')) }}
    {%- endif -%}
    {%- do plan.update({'holds': holds, 'recovered': state.pending is not none}) -%}
    {%- set changed_rows = namespace(total=0) -%}
    {%- for spec in inputs -%}
        {%- set known = plan.lookups if spec.kind == 'lookup' else plan.ranges -%}
        {%- if spec.source not in holds -%}
            {{ return(dict(plan, reason=spec.source ~ ' is a new input')) }}
        {%- elif spec.source not in known and (holds[spec.source].version != spec.version or holds[spec.source].at != spec.at) -%}
            {%- set range = _range(spec, holds[spec.source]) -%}
            {%- do known.update({spec.source: range}) -%}
            {%- if spec.kind == 'lookup' -%}
                {%- if (range.rows > 0 or range.gap) and settings.get('on_lookup_change', 'rebuild') == 'rebuild' -%}
                    {{ return(dict(plan, reason='lookup ' ~ spec.source ~ ' changed')) }}
                {%- endif -%}
            {%- elif range.gap and settings.get('on_gap', 'rebuild') == 'fail' -%}
                {{ exceptions.raise_compiler_error(
                    "The changes that " ~ relation ~ " has to follow are not there: " ~ range.gap ~ ". The model says on_gap: fail, so the "
                    ~ "table was left as it is; `dbt run --full-refresh --select " ~ relation.identifier ~ "` rebuilds it."
                ) }}
            {%- elif range.gap -%}
                {{ return(dict(plan, reason=range.gap)) }}
            {%- else -%}
                {%- set changed_rows.total = changed_rows.total + range.rows -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do plan.update({'rows': changed_rows.total}) -%}
    {%- if (plan.ranges.values() | list + plan.lookups.values() | list) | selectattr('columns_added') | list
        and _column_names(_columns_of_full_refresh(strategy, sql, settings)) != _column_names(adapter.get_columns_in_relation(relation)) -%}
        {{ return(dict(plan, reason='an input has a new column')) }}
    {%- endif -%}
    {%- if changed_rows.total == 0 -%}
        {{ return(dict(plan, choice='skip', reason='no changes')) }}
    {%- endif -%}
    {#- a small change needs no question: only what may be a large share of the work is compared with all of it -#}
    {%- if changed_rows.total > 10000 -%}
        {%- set share = _share_changed(strategy, relation, sql, plan, settings) -%}
        {%- if share.part > share.whole * (_replace_above(strategy, plan) if settings.get('replace_above') is none else settings.get('replace_above')) -%}
            {{ return(dict(plan, reason='%.0f %% of the %s' | format([100 * share.part / ([share.whole, 1] | max), 100] | min, share.what))) }}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(plan, choice='incremental', reason=changed_rows.total ~ ' rows changed')) }}
{% endmacro %}


{#- How much of what a full refresh does the changes make an incremental run do again: the keys that are computed anew, the rows of the
    input that are added up, or the rows of the table that may be written. Returns part, whole and what, their name. -#}
{% macro _share_changed(strategy, relation, sql, plan, settings) %}
    {%- if strategy == 'affected_keys' -%}
        {%- set key = (plan.inputs | selectattr('kind', 'equalto', 'affected') | list)[0].key | list | sort -%}
        {%- set row = run_query('select (select count(*) from (\n' ~ _touched_sql(strategy, sql, plan, settings) ~ '\n)) as touched, (select approx_count_distinct(struct('
            ~ _quoted(key) | join(', ') ~ ')) from ' ~ relation ~ ') as present').rows[0] -%}
        {{ return({'part': row['touched'] | int, 'whole': row['present'] | int, 'what': 'keys touched'}) }}
    {%- elif strategy == 'signed_sum' -%}
        {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'signed') | list)[0] -%}
        {{ return({'part': plan.rows, 'whole': run_query('select count(*) from ' ~ _input_sql(spec)).rows[0][0] | int, 'what': 'rows of ' ~ spec.source ~ ' changed'}) }}
    {%- endif -%}
    {{ return({'part': plan.rows, 'whole': run_query('select count(*) from ' ~ relation).rows[0][0] | int, 'what': 'rows changed'}) }}
{% endmacro %}


{#- The share above which a replacement is cheaper, by strategy. That of change_feed is between what `make bench-incremental` saw, a merge of 0.1 %
    of the rows for half of the CPU of a replacement and one of 10 % for more than all of it; the others are not measured. Rows that only
    came are appended, however many, where no key is computed anew. -#}
{% macro _replace_above(strategy, plan) %}
    {%- if strategy == 'change_feed' and not plan.ranges.values() | rejectattr('inserts_only') | list -%}
        {{ return(1.0) }}
    {%- endif -%}
    {{ return({'change_feed': 0.05, 'affected_keys': 0.3, 'signed_sum': 0.5, 'history': 1.0}[strategy]) }}
{% endmacro %}


{% macro _columns_of_full_refresh(strategy, sql, settings) %}
    {%- set given = adapter.get_column_schema_from_query(sql) -%}
    {{ return(given if strategy in ['change_feed', 'affected_keys'] else adapter.get_column_schema_from_query(_full_refresh_sql(strategy, sql, settings, given))) }}
{% endmacro %}


{% macro _column_names(columns) %}
    {{ return(columns | map(attribute='name') | map('lower') | list) }}
{% endmacro %}
