{#- Who still needs files that are no longer part of a table: models and streams that have not read all of its changes, shallow clones. -#}

{#- The states of every Delta table that may need another one's files, in whatever schema. `known`: states that were read already. -#}
{% macro hw_states_of_all(known) %}
    {%- set states = dict(known) -%}
    {%- for schema in run_query('show schemas').columns[0].values() -%}
        {%- for identifier in hw_tables_in(schema) if schema ~ '.' ~ identifier not in states -%}
            {%- set table = adapter.get_relation(none, schema, identifier) -%}
            {%- set name = schema ~ '.' ~ identifier -%}
            {%- if table is not none and table.is_delta -%}
                {%- do states.update({name: hw_table_state(name, hw_named(table))}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(states) }}
{% endmacro %}


{#- What others need of a table: a list of by (who, and what) and at (milliseconds: files that left the table then or later have to
    stay; none where the history no longer has it). -#}
{% macro hw_retention_needs(state, states) %}
    {%- set needs = [] -%}
    {%- for other, applied in hw_readers_of(state, states).items() if applied.version < state.version -%}
        {%- do needs.append(hw_need_of_changes(state, applied.version, other)) -%}
    {%- endfor -%}
    {%- for clone in hw_clones_of(state, states) -%}
        {%- do needs.append(hw_need_of_version(state, clone.version, 'the shallow clone ' ~ clone.name ~ ' stands on')) -%}
    {%- endfor -%}
    {%- for source in hw_streams_from(state.detail['location']) -%}
        {%- set next = hw_next_of_stream(source, state.detail['location']) -%}
        {%- set stream = 'the stream ' ~ source.name -%}
        {%- if next and next.isStartingVersion -%}
            {%- do needs.append(hw_need_of_version(state, next.reservoirVersion, stream ~ ' reads')) -%}
        {%- elif next -%}
            {%- do needs.append(hw_need_of_changes(state, next.reservoirVersion - 1, stream)) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(needs | select | list) }}
{% endmacro %}


{#- What somebody needs who reads all rows of a version. -#}
{% macro hw_need_of_version(state, version, by) %}
    {{ return({'by': by ~ ' version ' ~ version, 'at': hw_time_of_version(state.relation, version)}) }}
{% endmacro %}


{#- The tables that have a table among the applied versions of their inputs: by name, version and at. One that `drop` set aside reads no
    more. -#}
{% macro hw_readers_of(state, states) %}
    {%- set readers = {} -%}
    {%- for other, its in states.items() if its.inputs.get(state.name) and not its.properties.get('headwaters.backup.of') -%}
        {%- do readers.update({other: its.inputs[state.name]}) -%}
    {%- endfor -%}
    {{ return(readers) }}
{% endmacro %}


{#- The sources of the project whose stream reads a Delta table at this place. -#}
{% macro hw_streams_from(location) %}
    {%- set sources = [] -%}
    {%- for source in graph.sources.values() if (adapter.setting(source.config, 'stream') or {}).get('from') in ['delta',
        'delta_changes'] -%}
        {%- set path = hw_path_of(adapter.setting(source.config, 'stream').get('path') | string) -%}
        {%- if hw_path_of(location) == path or hw_path_of(location).endswith('/' ~ path.strip('/')) -%}
            {%- do sources.append(source) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(sources) }}
{% endmacro %}


{#- Where a stream of `headwaters ingest` resumes, by its checkpoint in the lake: reservoirVersion, and isStartingVersion while it reads a
    whole version. That is the end of its newest batch that was committed: one that was only planned is read again. None where it has read
    nothing. -#}
{% macro hw_next_of_stream(source, location) %}
    {%- if '/warehouse/' not in location -%}{{ return(none) }}{%- endif -%}
    {%- set lake, table = location.rsplit('/warehouse/', 1) -%}
    {%- set found = run_query(hw_next_of_stream_sql(lake, table, source.identifier)).rows[0]['next'] -%}
    {{ return(fromjson(found) if found else none) }}
{% endmacro %}


{#- The table's own log is named beside the checkpoint's folder so that the path leads somewhere when there is no checkpoint. -#}
{% macro hw_next_of_stream_sql(lake, table, stream) -%}
    {%- set files = '{checkpoints/' ~ stream ~ '/{offsets,commits}/*,warehouse/' ~ table ~ '/_delta_log/*.crc}' -%}
    with files as (
        select
            value,
            try_cast(_metadata.file_name as int) as batch,
            _metadata.file_path like '%/offsets/%' as is_plan
        from text.{{ hw_quote(lake ~ '/' ~ files) }}
        where _metadata.file_path like '%/checkpoints/%'
    )
    select max_by(value, batch) as next
    from files
    where is_plan
        and value like '%reservoirVersion%'
        and batch <= coalesce((select max(batch) from files where not is_plan), 0)
{%- endmacro %}


{#- What a reader of changes needs who has read up to a version: the first commit after it that changed rows. None where all that came is
    maintenance. -#}
{% macro hw_need_of_changes(state, version, reader) %}
    {%- set first = namespace(need=none) -%}
    {%- for commit in hw_describe_history(state.relation, state.version - version + 20) if commit.version > version -%}
        {%- if commit.effect.rows > 0 -%}
            {%- set first.need = {'by': reader ~ ' has read up to version ' ~ version, 'at': commit.at} -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(first.need) }}
{% endmacro %}


{#- Who needs files that a VACUUM would remove now, or ''. Delta retains what a table's retention says and nothing longer, whatever
    RETAIN says, so such a table is not vacuumed. An hour more: change files are older than their commit, and time passes between this
    question and the VACUUM. -#}
{% macro hw_vacuum_needs(state, states, now) %}
    {%- set horizon = now - state.retention + 3600000 -%}
    {%- set names = [] -%}
    {%- for need in hw_retention_needs(state, states) if need.at is none or need.at < horizon -%}
        {%- do names.append(need.by) -%}
    {%- endfor -%}
    {{ return(names | join('; ')) }}
{% endmacro %}
