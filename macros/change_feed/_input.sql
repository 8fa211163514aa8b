{#- What every input macro does: pin the input to its newest version and leave a marker in the compiled SQL that says what was
    pinned and how. `/* changes {"source": "silver.x", "version": 17, …} */ silver.x version as of 17` is both the full
    refresh's SQL and what the materialization needs to know; there is no other state between compile and run.
    Only commands that build or show data pin; parse, docs and lint see the plain relation, and so does a unit test's fixture. -#}
{% macro _input(kind, relation, options={}) %}
    {%- set spec = dict(options, kind=kind, source=relation | string, version=none, at=none) -%}
    {%- if not execute or relation.is_cte -%}
        {{ return(_input_sql(spec)) }}
    {%- endif -%}
    {%- if flags.WHICH in ['run', 'build', 'show', 'retry', 'run-operation'] and relation.limit is none and relation.event_time_filter is none -%}
        {%- set newest = _newest_commit(relation) -%}
        {%- do spec.update({'version': newest.version, 'at': newest.at}) -%}
    {%- endif -%}
    {{ return(_marked(spec)) }}
{% endmacro %}


{% macro _marked(spec) %}
    {{ return('/* ' ~ spec.kind ~ ' ' ~ tojson(spec, sort_keys=true) ~ ' */ ' ~ _input_sql(spec)) }}
{% endmacro %}


{#- The rows of an input as a full refresh reads them. -#}
{% macro _input_sql(spec) %}
    {%- set snapshot = spec.source ~ ((' version as of ' ~ spec.version) if spec.version is not none else '') -%}
    {%- if spec.kind == 'signed' -%}
        {{ return('(select *, 1 as _weight from ' ~ snapshot ~ ')') }}
    {%- elif spec.kind == 'images' -%}
        {#- the columns only: the images themselves are in the feed, see _history.sql -#}
        {{ return("(select *, named_struct('at', timestamp_millis(0), 'version', cast(0 as bigint), 'deleted', false, 'until', cast(null as timestamp)) as _image from " ~ snapshot ~ ')') }}
    {%- endif -%}
    {{ return(snapshot) }}
{% endmacro %}


{#- The marked inputs of a compiled model, in the order of the text: a list of their markers' contents, each with `text`, the
    exact piece of SQL that stands for the input. -#}
{% macro _inputs_of(sql) %}
    {%- set inputs = [] -%}
    {%- for match in modules.re.finditer('/\\* (changes|affected|signed|images|lookup) (\\{.*?\\}) \\*/ ', sql) -%}
        {%- set spec = fromjson(match.group(2)) -%}
        {%- do spec.update({'text': match.group(0) ~ _input_sql(spec)}) -%}
        {%- do inputs.append(spec) -%}
    {%- endfor -%}
    {{ return(inputs) }}
{% endmacro %}


{#- The compiled SQL with every input's text replaced: `replacements` maps a marker's text to other SQL. -#}
{% macro _with_inputs(sql, replacements) %}
    {%- set rewritten = namespace(sql=sql) -%}
    {%- for text, replacement in replacements.items() -%}
        {%- set rewritten.sql = rewritten.sql | replace(text, replacement) -%}
    {%- endfor -%}
    {{ return(rewritten.sql) }}
{% endmacro %}


{#- One source is read at one version, however often a model names it: two markers may have been pinned around a commit. -#}
{% macro _with_one_version_each(sql) %}
    {%- set first = {} -%}
    {%- set replacements = {} -%}
    {%- for spec in _inputs_of(sql) -%}
        {%- if spec.source in first and first[spec.source].version != spec.version -%}
            {%- set pinned = dict(spec, version=first[spec.source].version, at=first[spec.source].at) -%}
            {%- do pinned.pop('text') -%}
            {%- do replacements.update({spec.text: _marked(pinned)}) -%}
        {%- else -%}
            {%- do first.update({spec.source: spec}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(_with_inputs(sql, replacements)) }}
{% endmacro %}


{#- The model's SQL without its versions: what a model is, to tell whether it is still the one that built the table. -#}
{% macro _without_versions(sql) %}
    {{ return(_at_versions(sql, {})) }}
{% endmacro %}


{#- The SQL with its inputs pinned to the versions of a watermark: `{source: {version, at}}`. -#}
{% macro _at_versions(sql, watermark) %}
    {%- set replacements = {} -%}
    {%- for spec in _inputs_of(sql) -%}
        {%- set pinned = dict(spec, version=none, at=none) -%}
        {%- do pinned.pop('text') -%}
        {%- do pinned.update(watermark.get(spec.source, {})) -%}
        {%- do replacements.update({spec.text: _marked(pinned)}) -%}
    {%- endfor -%}
    {{ return(_with_inputs(sql, replacements) | trim) }}
{% endmacro %}
