{#- Who still needs files that are no longer part of a table: models that have not read all of its changes, and shallow clones. -#}

{#- The states of every Delta table that may need another one's files, in whatever schema. `known`: states that were read already. -#}
{% macro _states_of_all(known) %}
    {%- set states = dict(known) -%}
    {%- for schema in run_query('show schemas').columns[0].values() -%}
        {%- for identifier in _tables_in(schema) if schema ~ '.' ~ identifier not in states -%}
            {%- set table = adapter.get_relation(none, schema, identifier) -%}
            {%- if table is not none and table.is_delta -%}
                {%- do states.update({schema ~ '.' ~ identifier: _table_state(schema ~ '.' ~ identifier, _named(table))}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(states) }}
{% endmacro %}


{% macro _tables_in(schema) %}
    {{ return(run_query('show tables in ' ~ _quote(schema)).columns['tableName'].values() | list) }}
{% endmacro %}


{#- What others need of a table: a list of by (who, and what) and at (milliseconds: files that left the table then or later have to stay; none where the
    history does not say it any more). -#}
{% macro _needs(state, states) %}
    {%- set needs = [] -%}
    {%- for other, held in _readers_of(state, states).items() if held.version < state.version -%}
        {%- do needs.append(_need_of_changes(state, held.version, other ~ ' has read up to version ' ~ held.version)) -%}
    {%- endfor -%}
    {%- for clone in _clones_of(state, states) -%}
        {%- do needs.append({'by': 'the shallow clone ' ~ clone.name ~ ' stands on version ' ~ clone.version, 'at': _moment_of(state.relation, clone.version)}) -%}
    {%- endfor -%}
    {%- for source in _streams_from(state.detail['location']) -%}
        {%- set next = _next_of_stream(source, state.detail['location']) -%}
        {%- if next and next.isStartingVersion -%}
            {%- do needs.append({'by': 'the stream ' ~ source.name ~ ' reads version ' ~ next.reservoirVersion, 'at': _moment_of(state.relation, next.reservoirVersion)}) -%}
        {%- elif next -%}
            {%- do needs.append(_need_of_changes(state, next.reservoirVersion - 1, 'the stream ' ~ source.name ~ ' has read up to version ' ~ (next.reservoirVersion - 1))) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(needs | select | list) }}
{% endmacro %}


{#- The tables that say in their watermark how far they have read a table: by name, version and at. One that `drop` set aside reads no more. -#}
{% macro _readers_of(state, states) %}
    {%- set readers = {} -%}
    {%- for other, its in states.items() if its.inputs.get(state.name) and not its.properties.get('headwaters.backup.of') -%}{%- do readers.update({other: its.inputs[state.name]}) -%}{%- endfor -%}
    {{ return(readers) }}
{% endmacro %}


{#- The shallow clones of a table, by its name or its path: a list of name and version. -#}
{% macro _clones_of(state, states) %}
    {%- set clones = [] -%}
    {%- for other, its in states.items() -%}
        {%- for origin in its.clone_of if origin.source == state.name or _path(origin.source) == _path(state.detail['location']) -%}
            {%- do clones.append({'name': other, 'version': origin.version}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(clones) }}
{% endmacro %}


{% macro _path(location) %}
    {{ return(modules.re.sub('^file:/+', '/', location).rstrip('/')) }}
{% endmacro %}


{#- The sources of the project whose stream reads a Delta table at this place. -#}
{% macro _streams_from(location) %}
    {%- set sources = [] -%}
    {%- for source in graph.sources.values() if (_setting(source.config, 'stream') or {}).get('from') in ['delta', 'delta_changes'] -%}
        {%- set path = _path(_setting(source.config, 'stream').get('path') | string) -%}
        {%- if _path(location) == path or _path(location).endswith('/' ~ path.strip('/')) -%}{%- do sources.append(source) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(sources) }}
{% endmacro %}


{#- Where a stream of `headwaters ingest` reads on, by its checkpoint in the lake: reservoirVersion, and isStartingVersion while it reads a whole version. That is the end
    of its newest batch that was committed: one that was only planned is read again. None where it has read nothing. The table's own log is named beside the checkpoint's
    folder so that the path leads somewhere when there is no checkpoint. -#}
{% macro _next_of_stream(source, location) %}
    {%- if '/warehouse/' not in location -%}{{ return(none) }}{%- endif -%}
    {%- set lake, table = location.rsplit('/warehouse/', 1) -%}
    {%- set found = run_query("with files as (select value, try_cast(_metadata.file_name as int) as batch, _metadata.file_path like '%/offsets/%' as is_plan from text.`" ~ lake | replace('`', '``')
        ~ '/{checkpoints/' ~ source.identifier ~ '/{offsets,commits}/*,warehouse/' ~ table | replace('`', '``') ~ "/_delta_log/*.crc}` where _metadata.file_path like '%/checkpoints/%')\n"
        ~ "select max_by(value, batch) as next from files where is_plan and value like '%reservoirVersion%' and batch <= coalesce((select max(batch) from files where not is_plan), 0)").rows[0]['next'] -%}
    {{ return(fromjson(found) if found else none) }}
{% endmacro %}


{#- What a reader of changes needs who has read up to a version: the first commit after it that changed rows. None where all that came is maintenance. -#}
{% macro _need_of_changes(state, version, by) %}
    {%- set first = namespace(need=none) -%}
    {%- for commit in _history(state.relation, state.version - version + 20) if commit.version > version and _commit_effect(commit).rows > 0 -%}
        {%- set first.need = {'by': by, 'at': commit.at} -%}
    {%- endfor -%}
    {{ return(first.need) }}
{% endmacro %}


{#- Who needs files that a VACUUM would remove now, or ''. Delta keeps what a table's retention says and nothing longer, whatever RETAIN says, so such a table is not
    vacuumed. An hour more: change files are older than their commit, and time passes between this question and the VACUUM. -#}
{% macro _who_needs_vacuumed(state, states, now) %}
    {%- set names = [] -%}
    {%- for need in _needs(state, states) if need.at is none or need.at < now - state.retention + 3600000 -%}{%- do names.append(need.by) -%}{%- endfor -%}
    {{ return(names | join('; ')) }}
{% endmacro %}


{#- When a version was committed; none where the history does not say it any more. -#}
{% macro _moment_of(relation, version) %}
    {%- for commit in _history(relation, 100000) if commit.version == version -%}
        {{ return(commit.at) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
