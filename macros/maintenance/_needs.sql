{#- Who still needs files that are no longer part of a table: models that have not read all of its changes, and shallow clones. -#}

{#- The states of every Delta table that may need another one's files: those of the project's schemas and of their copies in other target
    schemas (`ada_silver`). `known`: states that were read already. -#}
{% macro _states_of_all(known) %}
    {%- set states = dict(known) -%}
    {%- set layers = [] -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.resource_type in ['model', 'seed', 'source'] -%}
        {%- for schema in [node.schema, node.config.get('schema') or node.schema] if schema not in layers -%}{%- do layers.append(schema) -%}{%- endfor -%}
    {%- endfor -%}
    {%- for row in run_query('show schemas').rows -%}
        {%- set schema = row[0] -%}
        {%- for layer in layers if schema == layer or schema.endswith('_' ~ layer) or schema == layer ~ '_backup' -%}
            {%- if loop.first -%}
                {%- for identifier in _tables_in(schema) if schema ~ '.' ~ identifier not in states -%}
                    {%- set table = adapter.get_relation(none, schema, identifier) -%}
                    {%- if table is not none and table.is_delta -%}
                        {%- do states.update({schema ~ '.' ~ identifier: _table_state(schema ~ '.' ~ identifier, _named(table))}) -%}
                    {%- endif -%}
                {%- endfor -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(states) }}
{% endmacro %}


{% macro _tables_in(schema) %}
    {{ return(run_query('show tables in ' ~ adapter.quote(schema)).columns['tableName'].values() | list) }}
{% endmacro %}


{#- What others need of a table: a list of by (who), version and at (milliseconds: files that left the table then or later have to stay). -#}
{% macro _needs(name, states) %}
    {%- set needs = [] -%}
    {%- for other, state in states.items() -%}
        {%- set held = state.inputs.get(name) -%}
        {%- set unread = _first_unread(states[name], held.version) if held and held.version < states[name].version else none -%}
        {%- if unread -%}
            {%- do needs.append({'by': other ~ ' has read up to version ' ~ held.version, 'version': unread.version, 'at': unread.at}) -%}
        {%- endif -%}
        {%- if state.cloned_from and state.cloned_from.split('.')[-2:] | join('.') == name and state.cloned_version is not none -%}
            {%- do needs.append({'by': 'the shallow clone ' ~ other ~ ' stands on version ' ~ state.cloned_version, 'version': state.cloned_version | int, 'at': none}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for source in graph.sources.values() if (_setting(source.config, 'stream') or {}).get('from') in ['delta', 'delta_changes'] -%}
        {%- set path = _setting(source.config, 'stream').get('path') | string -%}
        {%- set location = states[name].detail['location'] -%}
        {%- if location == path or location.endswith('/' ~ path.strip('/')) -%}
            {%- set read = _read_by_stream(source, location) -%}
            {%- set unread = _first_unread(states[name], read) if read is not none else none -%}
            {%- if unread -%}
                {%- do needs.append({'by': 'the stream ' ~ source.name ~ ' has read up to version ' ~ read, 'version': unread.version, 'at': unread.at}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(needs) }}
{% endmacro %}


{#- The last version that a stream of `headwaters ingest` has read whole, by its checkpoint in the lake; none where it has read nothing, and so will begin with a
    snapshot. The table's own log is named beside the checkpoint's folder so that the path leads somewhere when there is no checkpoint. -#}
{% macro _read_by_stream(source, location) %}
    {%- if '/warehouse/' not in location -%}{{ return(none) }}{%- endif -%}
    {%- set lake = location.rsplit('/warehouse/', 1)[0] -%}
    {%- set found = run_query("select max_by(value, cast(_metadata.file_name as int)) as planned from text.`" ~ lake | replace('`', '``') ~ '/{checkpoints/' ~ source.identifier ~ '/offsets/*,warehouse/'
        ~ location.rsplit('/warehouse/', 1)[1] | replace('`', '``') ~ "/_delta_log/*.crc}` where _metadata.file_path like '%/checkpoints/%' and value like '%reservoirVersion%'").rows[0]['planned'] -%}
    {{ return((fromjson(found).reservoirVersion | int) - 1 if found else none) }}
{% endmacro %}


{#- The first commit after a version that changed rows: who reads on from there needs its files. None where all that came is maintenance. -#}
{% macro _first_unread(state, version) %}
    {%- set first = namespace(commit=none) -%}
    {%- for commit in _history(state.relation, state.version - version + 20) if commit.version > version and _commit_effect(commit).rows > 0 -%}
        {%- set first.commit = commit -%}
    {%- endfor -%}
    {{ return(first.commit) }}
{% endmacro %}


{#- The moment from which on removed files of a table must stay, in milliseconds, and because of whom. -#}
{% macro _vacuum_horizon(state, states, now) %}
    {%- set horizon = namespace(at=now - state.retention, why=none) -%}
    {%- for need in _needs(state.name, states) -%}
        {%- set at = need.at if need.at is not none else _moment_of(state.relation, need.version) -%}
        {%- if at is none or at < horizon.at -%}
            {%- set horizon.at = at or 0 -%}
            {%- set horizon.why = need.by -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'at': horizon.at, 'why': horizon.why}) }}
{% endmacro %}


{#- When a version was committed; none where the history does not say it any more. -#}
{% macro _moment_of(relation, version) %}
    {%- for commit in _history(relation, 100000) if commit.version == version -%}
        {{ return(commit.at) }}
    {%- endfor -%}
    {{ return(none) }}
{% endmacro %}
