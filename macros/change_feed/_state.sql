{#- What the target table says about itself, in one statement: `sql`, the text that built it; `inputs`, the version of each input that
    it holds; `pending`, the versions that a run was about to bring in; each none where the table does not say; `detail`, the statement's row. -#}
{% macro _state(relation) %}
    {%- set detail = run_query('describe detail ' ~ relation).rows[0] -%}
    {%- set properties = _as_mapping(detail['properties']) -%}
    {{ return({
        'sql': properties.get('headwaters.sql'),
        'inputs': fromjson(properties.get('headwaters.inputs', 'null')),
        'pending': fromjson(properties.get('headwaters.pending', 'null')),
        'detail': detail,
    }) }}
{% endmacro %}


{#- What built a table, to tell whether the model is still the one: its SQL without versions, and the settings that say what rows it gives. -#}
{% macro _built_by(strategy, sql, settings) %}
    {{ return('/* built by ' ~ tojson([strategy, _as_list(settings.get('unique_key')), _as_list(settings.get('latest_by')), settings.get('derived', {})]) ~ ' */\n' ~ _without_versions(sql)) }}
{% endmacro %}


{#- What a table that is built anew says of itself: what built it, which versions of its inputs it holds, and of a history the commit that it
    begins with. A sample holds no version. -#}
{% macro _state_properties(strategy, sql, inputs, settings) %}
    {%- set properties = {'headwaters.sql': _built_by(strategy, sql, settings)} -%}
    {%- if not inputs | selectattr('version', 'none') | list -%}
        {%- do properties.update({'headwaters.inputs': tojson(_watermark(inputs))}) -%}
        {%- if strategy == 'history' -%}
            {%- set first = _first_known_commit((inputs | selectattr('kind', 'equalto', 'images') | list)[0]) -%}
            {%- do properties.update({'headwaters.begins': tojson({'version': first.version, 'at': first.at})}) -%}
        {%- endif -%}
    {%- endif -%}
    {{ return(properties) }}
{% endmacro %}


{#- The versions of a model's inputs, as the table's properties keep them. -#}
{% macro _watermark(inputs) %}
    {%- set watermark = {} -%}
    {%- for spec in inputs -%}
        {%- do watermark.update({spec.source: {'version': spec.version, 'at': spec.at}}) -%}
    {%- endfor -%}
    {{ return(watermark) }}
{% endmacro %}


{#- Says in the target that it holds its inputs at these versions. -#}
{% macro _set_watermark(target, inputs) %}
    {%- do run_query(_set_properties_sql(target, {'headwaters.inputs': tojson(_watermark(inputs)), 'headwaters.pending': 'null'})) -%}
{% endmacro %}


{% macro _set_properties_sql(relation, properties) %}
    {{ return('alter table ' ~ relation ~ ' set tblproperties (' ~ _assignments(properties) ~ ')') }}
{% endmacro %}


{#- A run writes down first what it is about to bring in. If it was killed after its commit and before its watermark, the target's
    history shows its commit after that note: then what it holds is what was pending. A RESTORE takes the reader to the commit that it
    went back to. Returns `inputs`, those that the target really holds; none where the history does not tell: a RESTORE by time, a note that
    is too long ago, or rows that something else than a run changed after it; and `seen`, the newest version that it looked at. -#}
{% macro _recovered_inputs(relation, state) %}
    {%- if not state.pending -%}
        {{ return({'inputs': state.inputs, 'seen': none}) }}
    {%- endif -%}
    {%- set commits = _history(relation, 100) -%}
    {%- set found = namespace(ours=false, noted=false, newest=none, hidden=false) -%}
    {%- for commit in commits if not found.noted and (found.newest is none or commit.version <= found.newest) -%}
        {%- if commit.operation == 'SET TBLPROPERTIES' and 'headwaters.pending' in (commit.parameters | string) -%}
            {%- set found.noted = true -%}
        {%- elif commit.operation == 'RESTORE' -%}
            {%- set found.newest = commit.parameters.get('version') | int(-1) -%}
            {%- set found.hidden = found.newest < 0 -%}
        {%- elif commit.operation == 'MERGE' or (commit.operation == 'WRITE' and (commit.parameters.get('mode') == 'Append' or commit.parameters.get('predicate'))) -%}
            {%- set found.ours = true -%}
        {%- elif _commit_effect(commit).rows > 0 -%}
            {%- set found.hidden = true -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'inputs': none if found.hidden or not found.noted else state.pending if found.ours else state.inputs, 'seen': commits[0].version}) }}
{% endmacro %}


{#- Whether something changed rows of a table after a version: the commit of a killed run that landed before the next run's own note. -#}
{% macro _changed_since(relation, version) %}
    {%- for commit in _history(relation, 100) if commit.version > version and _commit_effect(commit).rows > 0 -%}
        {{ return(true) }}
    {%- endfor -%}
    {{ return(false) }}
{% endmacro %}
