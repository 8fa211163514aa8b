{#- What the next run of a model does and why: the one place where that is decided. Changes nothing.
    Returns choice (`skip`, `replace`, `incremental`), reason, inputs (the pinned inputs of the SQL), ranges (for each changing input's
    source: what `_range` says), and holds (the versions that the target holds). -#}
{% macro _plan(strategy, relation, exists, sql, settings, full_refresh=false) %}
    {%- set inputs = _inputs_of(sql) -%}
    {%- set plan = {'choice': 'replace', 'reason': '', 'inputs': inputs, 'ranges': {}, 'holds': none, 'recovered': false} -%}
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
    {%- elif state.sql != _without_versions(sql) -%}
        {{ return(dict(plan, reason='the SQL of the model is not what built the table')) }}
    {%- endif -%}
    {%- if _as_names(state.detail['partitionColumns']) != _as_list(settings.get('partition_by')) and not (_as_list(settings.get('partition_by')) and _as_names(state.detail['clusteringColumns'])) -%}
        {{ return(dict(plan, reason='the table is not partitioned as the model says')) }}
    {%- endif -%}
    {%- set holds = _recovered_inputs(relation, state) -%}
    {%- if holds is none -%}
        {{ return(dict(plan, reason='a restore by time hides which versions of its inputs the table holds')) }}
    {%- endif -%}
    {%- do plan.update({'holds': holds, 'recovered': state.pending is not none}) -%}
    {%- set changed_rows = namespace(total=0) -%}
    {%- for spec in inputs if spec.source not in plan.ranges -%}
        {%- if spec.source not in holds -%}
            {{ return(dict(plan, reason=spec.source ~ ' is a new input')) }}
        {%- endif -%}
        {%- if holds[spec.source].version != spec.version or holds[spec.source].at != spec.at -%}
            {%- set range = _range(spec, holds[spec.source]) -%}
            {%- do plan.ranges.update({spec.source: range}) -%}
            {%- if range.gap -%}
                {%- if settings.get('on_gap', 'rebuild') == 'fail' -%}
                    {{ exceptions.raise_compiler_error(
                        "The changes that " ~ relation ~ " has to follow are not there: " ~ range.gap ~ ". The model says on_gap: fail, so the "
                        ~ "table was left as it is; `dbt run --full-refresh --select " ~ relation.identifier ~ "` rebuilds it."
                    ) }}
                {%- endif -%}
                {{ return(dict(plan, reason=range.gap)) }}
            {%- endif -%}
            {%- if range.rows > 0 and spec.kind == 'lookup' -%}
                {%- if settings.get('on_lookup_change', 'rebuild') == 'rebuild' -%}
                    {{ return(dict(plan, reason='lookup ' ~ spec.source ~ ' changed')) }}
                {%- endif -%}
            {%- else -%}
                {%- set changed_rows.total = changed_rows.total + range.rows -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- do plan.update({'rows': changed_rows.total}) -%}
    {%- if plan.ranges.values() | selectattr('columns_added') | list and _column_names(adapter.get_column_schema_from_query(_full_refresh_sql(strategy, sql, settings, []))) != _column_names(adapter.get_columns_in_relation(relation)) -%}
        {{ return(dict(plan, reason='an input has a new column')) }}
    {%- endif -%}
    {%- if changed_rows.total == 0 -%}
        {{ return(dict(plan, choice='skip', reason='no changes')) }}
    {%- endif -%}
    {#- a small change needs no question: only what may be a large share of the table is compared with its size -#}
    {%- if changed_rows.total > 10000 -%}
        {%- set rows = run_query('select count(*) from ' ~ relation).rows[0][0] | int -%}
        {%- set share = changed_rows.total / ([rows, 1] | max) -%}
        {%- set limit = settings.get('replace_above', _replace_above(strategy, plan)) -%}
        {%- if share > limit -%}
            {{ return(dict(plan, reason='%.0f %% of the rows changed' | format([share * 100, 100] | min))) }}
        {%- endif -%}
    {%- endif -%}
    {{ return(dict(plan, choice='incremental', reason=changed_rows.total ~ ' rows changed')) }}
{% endmacro %}


{#- The share of changed rows above which a replacement is cheaper, by strategy; measured by `make bench-incremental`. -#}
{% macro _replace_above(strategy, plan) %}
    {%- if plan.ranges.values() | rejectattr('inserts_only') | list | length == 0 -%}
        {{ return(1.0) }}
    {%- endif -%}
    {{ return({'change_feed': 0.3, 'affected_keys': 0.2, 'signed_sum': 1.0, 'history': 1.0}[strategy]) }}
{% endmacro %}


{% macro _column_names(columns) %}
    {{ return(columns | map(attribute='name') | map('lower') | list) }}
{% endmacro %}
