{#- Renames a table for the time `expires`; expire_backups drops it for good. Refuses while a model, a snapshot, an exposure, a stream, a
    shallow clone or a table that follows it needs it. -#}
{% macro drop(table, reason=none, dry_run=true, expires='30 days') %}
    {%- if not dry_run -%}{%- do hw_require_reason('drop', reason) -%}{%- endif -%}
    {%- set target = hw_target('drop', table) -%}
    {%- set lasts = adapter.units.milliseconds_of(expires) -%}
    {%- if lasts is none -%}
        {{ hw_raise('HW_DURATION', "drop: expires is '" ~ expires ~ "': write a length of time, such as 30 days. "
            ~ "Nothing was changed.") }}
    {%- endif -%}
    {%- set dependents = hw_dependents(target) -%}
    {%- if dependents -%}
        {{ hw_raise('HW_TABLE_IS_NEEDED', 'drop: ' ~ target.name ~ ' is needed by ' ~ dependents | join(', ')
            ~ '. Remove what depends on it first. Nothing was changed.') }}
    {%- endif -%}
    {%- set aside = target.identifier ~ '__dropped_' ~ run_started_at.strftime('%Y%m%d%H%M%S') -%}
    {%- set moved = hw_quoted_name(target.schema, aside) -%}
    {%- set until = (run_started_at + modules.datetime.timedelta(milliseconds=lasts)).strftime('%Y-%m-%dT%H:%M:%SZ') -%}
    {%- set rows = run_query('select count(*) as rows from ' ~ target.relation).rows[0]['rows'] -%}
    {%- set lines = [hw_target_line(target, rows), '  - set aside as ' ~ target.schema ~ '.' ~ aside ~ ' until ' ~ until] -%}
    {%- if hw_proceed('drop', lines, dry_run) -%}
        {%- set notes = {'headwaters.backup.of': target.name, 'headwaters.backup.version': target.version,
            'headwaters.backup.expires': until, 'headwaters.backup.reason': reason} -%}
        {%- set undo = [
            'alter table ' ~ moved ~ ' rename to ' ~ target.relation,
            'alter table ' ~ target.relation ~ " unset tblproperties ('" ~ notes | join("', '") ~ "')",
        ] | join('; ') -%}
        {%- set record = hw_begin_operation('drop', target.name, reason, {'as': aside, 'expires': until}, target.version, target.detail,
            undo) -%}
        {%- do run_query(hw_set_properties_sql(target.relation, notes)) -%}
        {%- do run_query('alter table ' ~ target.relation ~ ' rename to ' ~ moved) -%}
        {%- do hw_finish_operation(record, target.version + 1) -%}
        {{ print('drop: done; undo:\n  ' ~ hw_undo_command([undo])) }}
    {%- endif -%}
{% endmacro %}


{#- Lists the dependents of a table: of this project the nodes that are built from it and the streams that read or write it; of all schemas
    its shallow clones and the tables that follow it. -#}
{% macro hw_dependents(target) %}
    {%- set dependents = adapter.named_tables.dependents_of(graph, target.node) -%}
    {%- for source in graph.sources.values() if adapter.nodes.setting(source.config, 'stream') and source.schema == target.schema
        and target.identifier in [source.identifier, source.identifier ~ '_quarantine'] -%}
        {%- do dependents.append('the stream ' ~ source.name ~ ', which writes it') -%}
    {%- endfor -%}
    {%- for source in hw_streams_from(target.detail['location']) -%}
        {%- do dependents.append('the stream ' ~ source.name ~ ', which reads it') -%}
    {%- endfor -%}
    {%- set states = hw_states_of_all({}) -%}
    {%- for clone in hw_clones_of(target, states) -%}{%- do dependents.append('shallow clone ' ~ clone.name) -%}{%- endfor -%}
    {%- set ours = adapter.named_tables.followers_of(graph, target.node) -%}
    {%- for other in hw_readers_of(target, states) if other not in ours -%}
        {%- do dependents.append(other ~ ', which follows it') -%}
    {%- endfor -%}
    {{ return(dependents) }}
{% endmacro %}
