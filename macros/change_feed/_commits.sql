{#- The newest commit of a Delta table: `version`, and `at`, its time in milliseconds since 1970. The two together name a state of
    one table: a table dropped and made anew at the same version has another time. -#}
{% macro _newest_commit(relation) %}
    {{ return(_history(relation, 1)[0]) }}
{% endmacro %}


{#- Whether a commit is the one that was noted as `version` and `at`. -#}
{% macro _is_same_commit(commit, noted) %}
    {{ return(commit.is_same(noted)) }}
{% endmacro %}


{#- The last `limit` commits of a table, newest first: `Commit`s of scripts/headwaters/incremental/commits.py, where the rules about them are. -#}
{% macro _history(relation, limit) %}
    {{ return(adapter.commits_of(run_query('describe history ' ~ relation ~ ' limit ' ~ limit).rows)) }}
{% endmacro %}


{% macro _as_mapping(value) %}
    {{ return(adapter.as_mapping(value)) }}
{% endmacro %}


{% macro _milliseconds(value) %}
    {{ return(adapter.milliseconds(value)) }}
{% endmacro %}


{#- What a commit does to the rows of its table: rows (changed, an upper bound) and inserts_only. -#}
{% macro _commit_effect(commit) %}
    {{ return(commit.effect) }}
{% endmacro %}


{#- What an input's table went through after the commit `applied` up to its pinned version, and whether its change feed can tell it: a `Range`. -#}
{% macro _range(spec, applied) %}
    {#- commits may have come since the version was pinned: ask for some more than the range -#}
    {%- set commits = _history(spec.source, spec.version - applied.version + 20) if applied.version <= spec.version else [] -%}
    {%- set range = adapter.range_of(spec.source, applied, spec.version, commits) -%}
    {%- if range.needs_columns and (spec.kind != 'lookup' or range.doubt) -%}
        {%- set range = range.with_columns(_columns_around(spec.source, range.replaced, [range.after, range.to])) -%}
    {%- endif -%}
    {%- if spec.kind == 'lookup' or range.gap -%}
        {{ return(range) }}
    {%- endif -%}
    {%- if range.uncounted -%}
        {%- set feed = _feed_sql(spec.source, range.after, range.to) -%}
        {%- set reading = adapter.read_changes('select count(*) from ' ~ feed, {spec.source: feed}) -%}
        {%- set range = range.with_gap(reading.gap) if reading.gap else range.with_rows(reading.rows[0][0] | int) -%}
    {%- endif -%}
    {%- if range.gap or range.rows == 0 -%}
        {{ return(range) }}
    {%- endif -%}
    {%- set columns = adapter.get_column_schema_from_query('select * from ' ~ spec.source ~ ' version as of ' ~ spec.version) -%}
    {%- set texts = [] -%}
    {%- for name in adapter.texts_of(columns) if not spec.read or name | lower in spec.read -%}{%- do texts.append(name) -%}{%- endfor -%}
    {%- set range = range.with_texts(texts) -%}
    {{ return(range.with_grouping(adapter.grouping_of(columns)) if range.needs_grouping and spec.kind == 'changes' else range) }}
{% endmacro %}


{#- The columns of a table before and after each of some commits, and at further versions: a mapping of versions to types of structs. -#}
{% macro _columns_around(source, commits, further=[]) %}
    {%- set versions = further | list -%}
    {%- for version in commits -%}{%- do versions.extend([version - 1, version]) -%}{%- endfor -%}
    {%- set columns = {} -%}
    {%- for some in versions | unique | batch(100) -%}
        {%- set types = [] -%}
        {%- for version in some -%}
            {%- do types.append('typeof((select struct(*) from ' ~ source ~ ' version as of ' ~ version ~ ' limit 1)) as columns_' ~ loop.index) -%}
        {%- endfor -%}
        {%- do columns.update(zip(some, run_query('select ' ~ types | join(', ')).rows[0].values())) -%}
    {%- endfor -%}
    {{ return(columns) }}
{% endmacro %}
