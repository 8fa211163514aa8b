{#- Finds the readers of files that have left a table: models and streams that have not read all of its changes, and shallow clones. -#}

{#- Returns the states of every Delta table, in all schemas, that may need another one's files. `known`: states that were read already. -#}
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


{#- Returns the needs of a table's readers: a list of by (the reader and its version) and at (milliseconds: files that left the table then
    or later have to stay; none if the history does not reach back). -#}
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


{#- Returns the need of a reader of all rows of a version. -#}
{% macro hw_need_of_version(state, version, by) %}
    {{ return({'by': by ~ ' version ' ~ version, 'at': hw_time_of_version(state.relation, version)}) }}
{% endmacro %}


{#- Returns the tables that have a table among the applied versions of their inputs: by name, version and at. A table that `drop` renamed
    does not read any more. -#}
{% macro hw_readers_of(state, states) %}
    {%- set readers = {} -%}
    {%- for other, its in states.items() if its.inputs.get(state.name) and not its.properties.get('headwaters.backup.of') -%}
        {%- do readers.update({other: its.inputs[state.name]}) -%}
    {%- endfor -%}
    {{ return(readers) }}
{% endmacro %}


{#- Returns the sources of the project whose stream reads the Delta table at this path. -#}
{% macro hw_streams_from(location) %}
    {%- set sources = [] -%}
    {%- for source in graph.sources.values() if adapter.streams.reads_table(adapter.nodes.setting(source.config, 'stream')) -%}
        {%- set path = hw_path_of(adapter.nodes.setting(source.config, 'stream').get('path') | string) -%}
        {%- if hw_path_of(location) == path or hw_path_of(location).endswith('/' ~ path.strip('/')) -%}
            {%- do sources.append(source) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(sources) }}
{% endmacro %}


{#- Returns the position of a stream of `headwaters ingest` by its checkpoint in the lake: reservoirVersion, and isStartingVersion while it
    reads a whole version. This is the end of its newest committed batch, since a batch that was only planned is read again. Returns none if
    the stream has read nothing. -#}
{% macro hw_next_of_stream(source, location) %}
    {%- if '/warehouse/' not in location -%}{{ return(none) }}{%- endif -%}
    {%- set lake, table = location.rsplit('/warehouse/', 1) -%}
    {%- set found = run_query(hw_next_of_stream_sql(lake, table, source.identifier)).rows[0]['next'] -%}
    {{ return(fromjson(found) if found else none) }}
{% endmacro %}


{#- The query reads the table's log as well, so that its path exists without a checkpoint. -#}
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


{#- Returns the need of a reader of changes up to a version: the first later commit that changed rows. Returns none if all later commits are
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


{#- Returns the readers of files that a VACUUM would remove now, or ''. Delta retains files only for the table's retention and ignores
    RETAIN, so such a table is not vacuumed. The hour is a margin: change files are older than their commit, and time passes until the
    VACUUM. -#}
{% macro hw_vacuum_needs(state, states, now) %}
    {%- set horizon = now - state.retention + 3600000 -%}
    {%- set names = [] -%}
    {%- for need in hw_retention_needs(state, states) if need.at is none or need.at < horizon -%}
        {%- do names.append(need.by) -%}
    {%- endfor -%}
    {{ return(names | join('; ')) }}
{% endmacro %}
