{#- What every input macro does: pin the input to its newest version and leave a marker in the compiled SQL that says what was
    pinned and how. `/* changes {"source": "silver.x", "version": 17, …} */ silver.x version as of 17` is both the full
    refresh's SQL and what the materialization needs to know; there is no other state between compile and run.
    Only commands that build or show data pin; parse, docs and lint see the plain relation, and so does a unit test's fixture. -#}
{% macro hw_input(kind, relation, options={}) %}
    {%- if execute and relation.is_cte and model is defined and model.resource_type == 'model' -%}
        {{ hw_raise('EPHEMERAL_INPUT', kind ~ "(ref('" ~ (relation.identifier | replace('__dbt__cte__', '', 1))
            ~ "')): an ephemeral model is no table, so it has no changes. Write " ~ kind
            ~ '() in it, around what it reads, and here the ref() alone.') }}
    {%- elif execute and not relation.is_cte and flags.WHICH in ['run', 'build', 'show', 'retry', 'run-operation']
        and relation.limit is none and relation.event_time_filter is none -%}
        {{ return(hw_pinned(kind, relation | string, options)) }}
    {%- endif -%}
    {%- set spec = dict(options, kind=kind, source=relation | string, version=none, at=none) -%}
    {{ return(hw_marked(spec) if execute and not relation.is_cte else hw_input_sql(spec)) }}
{% endmacro %}


{#- The input at its newest version. -#}
{% macro hw_pinned(kind, source, options={}) %}
    {%- set newest = hw_newest_version(kind, source) -%}
    {{ return(hw_marked(dict(options, kind=kind, source=source, **newest)) if newest else hw_through_view(kind, source)) }}
{% endmacro %}


{#- `version` and `at` of a table's newest commit; none of a view. A review pins inputs at the versions that it found first, by the
    var `headwaters_pins`: {source in lower case: {version, at}}. -#}
{% macro hw_newest_version(kind, source) %}
    {%- set pinned = var('headwaters_pins', {}).get(source | lower) -%}
    {%- if pinned -%}{{ return(pinned) }}{%- endif -%}
    {%- set unchanged = adapter.unchanged_version(source, selected_resources) -%}
    {%- if unchanged -%}{{ return(unchanged) }}{%- endif -%}
    {%- set answer = adapter.history_of(source, conditions=['EXPECT_TABLE_NOT_VIEW', 'DELTA_ONLY_OPERATION',
        'DELTA_TABLE_ONLY_OPERATION', 'DELTA_MISSING_DELTA_TABLE']) -%}
    {%- if not answer.failure -%}
        {%- set newest = answer.rows[0] -%}
        {{ return({'version': newest.version, 'at': newest.at}) }}
    {%- elif 'EXPECT_TABLE_NOT_VIEW' in answer.failure -%}
        {{ return(none) }}
    {%- endif -%}
    {{ hw_raise('NOT_A_DELTA_TABLE', kind ~ '(): ' ~ source ~ ' is not a Delta table, so it does not say when it changes. '
        ~ 'Make it one (file_format: delta, or `convert to delta`), or read a Delta table that has its rows.') }}
{% endmacro %}


{#- A view has no versions and no changes; the tables under it have. Its query is put in its place, with them marked: one
    in changes(), any number in lookup(). The other macros name columns of their input, or add some, which a view may
    rename or leave out. -#}
{% macro hw_through_view(kind, source) %}
    {%- set view = hw_view(kind, source) -%}
    {%- set replacements = {} -%}
    {%- for name in view.relations if name not in replacements -%}
        {%- do replacements.update({name: hw_pinned(kind, name)}) -%}
    {%- endfor -%}
    {{ return(hw_text_of_view(source, view, replacements)) }}
{% endmacro %}


{% macro hw_text_of_view(source, view, replacements) %}
    {{ return('/* view ' ~ tojson({'source': source}) ~ ' */ ' ~ adapter.with_relations(view.text, replacements)) }}
{% endmacro %}


{#- The query of a view that can be read through; `kind` is the input macro, or auto. -#}
{% macro hw_view(kind, source) %}
    {%- set view = adapter.view(run_query('describe extended ' ~ source ~ ' as json').rows[0][0]) -%}
    {%- set obstacle = view.obstacle or ('reads more than one table' if kind == 'changes' and view.relations | length > 1 else none) -%}
    {%- if obstacle or kind not in ['changes', 'lookup', 'auto'] -%}
        {{ hw_raise('VIEW_AS_INPUT', kind ~ '(): ' ~ source ~ ' is a view' ~ (' that ' ~ obstacle if obstacle else '')
            ~ ', which has no changes of its own. Make it an ephemeral model with '
            ~ kind ~ '() around what it reads, or a table that is maintained incrementally.') }}
    {%- endif -%}
    {%- do hw_check_view(kind ~ '(): ' ~ source ~ ' is a view ', source, view) -%}
    {{ return(view) }}
{% endmacro %}


{#- Refuses a view whose query, in the session of the run, may give other rows or columns than Spark makes of the view. Runs a statement
    that tells both columns. -#}
{% macro hw_check_view(where, source, view) %}
    {%- set others = adapter.other_settings(view.settings) -%}
    {%- if others and not hw_is_the_same_under(view, others) -%}
        {{ hw_raise('VIEW_SETTINGS', where ~ 'that Spark evaluates with ' ~ others | join(', ') ~ '. Create it again in a session with the '
            ~ 'settings of the run, or make it an ephemeral model.') }}
    {%- endif -%}
    {%- set function = adapter.other_function(view) -%}
    {%- if function -%}
        {{ hw_raise('VIEW_AS_INPUT', where ~ 'that calls a function without its schema, which is ' ~ function ~ ' in the run and '
            ~ 'another one in the view. Create the view again with the schema before the function, or make it an ephemeral model.') }}
    {%- endif -%}
    {%- set both = 'select one.*, other.* from ' ~ source ~ ' as one cross join ' ~ view.text ~ ' as other' -%}
    {%- set difference = adapter.other_columns(get_column_schema_from_query(both)) -%}
    {%- if difference -%}
        {{ hw_raise('VIEW_COLUMNS', where ~ 'that has ' ~ difference ~ ': Spark casts what has changed since it was created. Create it '
            ~ 'again, or make it an ephemeral model.') }}
    {%- endif -%}
{% endmacro %}


{#- Whether a query computes nothing that the settings which a view and the run have otherwise could change: it selects columns, and Spark
    casts nothing to compare them. -#}
{% macro hw_is_the_same_under(view, others) %}
    {%- set content = adapter.columns_alone(view.text) if adapter.are_of_expressions(others) else none -%}
    {%- if content == 'conditions' -%}
        {{ return(not adapter.has_casts(run_query('explain extended select * from ' ~ view.text).rows[0][0])) }}
    {%- endif -%}
    {{ return(content == 'columns') }}
{% endmacro %}


{% macro hw_marked(spec) %}
    {#- no star in the content, or it could end the comment -#}
    {{ return('/* ' ~ spec.kind ~ ' ' ~ tojson(spec, sort_keys=true) | replace('*', '\\u002a') ~ ' */ ' ~ hw_input_sql(spec)) }}
{% endmacro %}


{#- The rows of an input as a full refresh reads them. -#}
{% macro hw_input_sql(spec) %}
    {%- set snapshot = spec.source ~ ((' version as of ' ~ spec.version) if spec.version is not none else '') -%}
    {%- if spec.kind == 'signed' -%}
        {{ return('(select *, 1 as _weight from ' ~ snapshot ~ ')') }}
    {%- elif spec.kind == 'images' -%}
        {#- the columns only: the images themselves are in the feed, see strategies/history.sql -#}
        {%- set fields = "'at', timestamp_millis(0), 'version', cast(0 as bigint), 'deleted', false, 'until', cast(null as timestamp)" -%}
        {{ return('(select *, named_struct(' ~ fields ~ ') as _image from ' ~ snapshot ~ ')') }}
    {%- endif -%}
    {{ return(snapshot) }}
{% endmacro %}


{#- A compiled model as the engine reads it: comments and semicolons left out, every input with an alias and at one
    version, partition columns as they are stored; if `kept`, without the rows that its expectations drop. -#}
{% macro hw_followed_sql(code, config, kept=true) %}
    {%- set sql = hw_as_stored(adapter.prepared_sql(code), config) -%}
    {{ return(hw_with_one_version_each(hw_kept_sql(sql, config) if kept else sql)) }}
{% endmacro %}


{#- The marked inputs of a model's SQL, in the order of the text: a list of their markers' contents, each with `text`, the
    exact piece of SQL that stands for the input. One that is read twice under one text is one input. -#}
{% macro hw_inputs_of(sql) %}
    {%- set inputs = {} -%}
    {%- for match in modules.re.finditer('/\\* (\\w+) (\\{[^\\n]*?"kind": "\\1"[^\\n]*?\\}) \\*/ ', sql) -%}
        {%- set spec = fromjson(match.group(2)) -%}
        {%- set text = match.group(0) ~ hw_input_sql(spec) -%}
        {%- do inputs.update({text: dict(spec, text=text)}) -%}
    {%- endfor -%}
    {{ return(inputs.values() | list) }}
{% endmacro %}


{#- The compiled SQL with every input's text replaced: `replacements` maps a marker's text to other SQL. -#}
{% macro hw_with_inputs(sql, replacements) %}
    {%- set rewritten = namespace(sql=sql) -%}
    {%- for text, replacement in replacements.items() -%}
        {%- set rewritten.sql = rewritten.sql | replace(text, replacement) -%}
    {%- endfor -%}
    {{ return(rewritten.sql) }}
{% endmacro %}


{#- One source is read at one version, however often a model names it: two markers may have been pinned around a commit. -#}
{% macro hw_with_one_version_each(sql) %}
    {%- set first = {} -%}
    {%- set replacements = {} -%}
    {%- for spec in hw_inputs_of(sql) -%}
        {%- if spec.source in first and first[spec.source].version != spec.version -%}
            {%- set pinned = dict(spec, version=first[spec.source].version, at=first[spec.source].at) -%}
            {%- do pinned.pop('text') -%}
            {%- do replacements.update({spec.text: hw_marked(pinned)}) -%}
        {%- else -%}
            {%- do first.update({spec.source: spec}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(hw_with_inputs(sql, replacements)) }}
{% endmacro %}


{#- The model's SQL without its versions: what a model is, to tell whether it is still the one that built the table. -#}
{% macro hw_without_versions(sql) %}
    {{ return(hw_at_versions(sql, {})) }}
{% endmacro %}


{#- The SQL with its inputs pinned to other versions: `{source: {version, at}}`. -#}
{% macro hw_at_versions(sql, versions) %}
    {%- set replacements = {} -%}
    {%- for spec in hw_inputs_of(sql) -%}
        {%- set pinned = dict(spec, version=none, at=none) -%}
        {%- do pinned.pop('text') -%}
        {%- do pinned.update(versions.get(spec.source, {})) -%}
        {%- do replacements.update({spec.text: hw_marked(pinned)}) -%}
    {%- endfor -%}
    {{ return(hw_with_inputs(sql, replacements) | trim) }}
{% endmacro %}


{#- Replacements for inputs that have no rows. -#}
{% macro hw_without_rows(inputs) %}
    {%- set replacements = {} -%}
    {%- for spec in inputs -%}
        {%- do replacements.update({spec.text: '(select * from ' ~ hw_input_sql(spec) ~ ' where false)'}) -%}
    {%- endfor -%}
    {{ return(replacements) }}
{% endmacro %}
