{#- The newest commit of a Delta table: `version`, and `at`, its time in milliseconds since 1970. The two together name a state of
    one table: a table dropped and made anew at the same version has another time. -#}
{% macro _newest_commit(relation) %}
    {{ return(_history(relation, 1)[0]) }}
{% endmacro %}


{#- Whether a commit is the one that was noted. Delta tells commits of one moment apart by a millisecond each, as far back as it was asked. -#}
{% macro _is_same_commit(commit, noted) %}
    {{ return(commit.version == noted.version and (commit.at - noted.at) | abs < 100) }}
{% endmacro %}


{#- The last `limit` commits of a table, newest first: version, at, operation, parameters, metrics. -#}
{% macro _history(relation, limit) %}
    {%- set commits = [] -%}
    {%- for row in run_query('describe history ' ~ relation ~ ' limit ' ~ limit).rows -%}
        {%- do commits.append({
            'version': row['version'] | int,
            'at': _milliseconds(row['timestamp']),
            'operation': row['operation'],
            'parameters': _as_mapping(row['operationParameters']),
            'metrics': _as_mapping(row['operationMetrics']),
        }) -%}
    {%- endfor -%}
    {{ return(commits) }}
{% endmacro %}


{% macro _as_mapping(value) %}
    {%- if value is mapping -%}{{ return(value) }}{%- endif -%}
    {{ return(fromjson(value, {}) if value else {}) }}
{% endmacro %}


{% macro _milliseconds(value) %}
    {%- set moment = value -%}
    {%- if value is string -%}
        {#- as a person writes it, UTC -#}
        {%- set moment = modules.datetime.datetime.fromisoformat(value).replace(tzinfo=modules.pytz.utc) -%}
    {%- endif -%}
    {{ return((moment.timestamp() * 1000) | round | int) }}
{% endmacro %}


{#- Commits by what they do to the rows of their table. Everything that is not named here is taken to have changed rows. -#}
{% macro _commit_effect(commit) %}
    {%- set metrics = commit.metrics -%}
    {%- set operation = commit.operation -%}
    {%- if operation in [
        'OPTIMIZE', 'REORG', 'VACUUM START', 'VACUUM END', 'SET TBLPROPERTIES', 'UNSET TBLPROPERTIES', 'ADD CONSTRAINT',
        'DROP CONSTRAINT', 'UPGRADE PROTOCOL', 'CLUSTER BY', 'COMPUTE STATS', 'CREATE TABLE', 'SET TABLE COMMENT', 'DROP FEATURE',
        'ADD DELETION VECTORS TOMBSTONES', 'CHANGE COLUMN', 'CHANGE COLUMNS', 'ADD COLUMNS', 'REPLACE COLUMNS', 'RENAME COLUMN', 'DROP COLUMNS',
    ] -%}
        {{ return({'rows': 0, 'inserts_only': true}) }}
    {%- elif operation in ['WRITE', 'STREAMING UPDATE'] and (commit.parameters.get('mode') or commit.parameters.get('outputMode')) == 'Append' -%}
        {{ return({'rows': metrics.get('numOutputRows', 1) | int, 'inserts_only': true}) }}
    {%- elif operation == 'MERGE' -%}
        {%- set removed = (metrics.get('numTargetRowsUpdated', 1) | int) + (metrics.get('numTargetRowsDeleted', 0) | int) -%}
        {{ return({'rows': removed + (metrics.get('numTargetRowsInserted', 0) | int), 'inserts_only': removed == 0}) }}
    {%- elif operation in ['DELETE', 'UPDATE'] -%}
        {{ return({'rows': metrics.get('numDeletedRows', metrics.get('numUpdatedRows', 1)) | int, 'inserts_only': false}) }}
    {%- endif -%}
    {#- what INSERT … REPLACE WHERE leaves in the files that it touches counts as output as well -#}
    {%- set rows = (metrics.get('numOutputRows', 0) | int) - (metrics.get('numCopiedRows', 0) | int) + (metrics.get('numDeletedRows', 0) | int) -%}
    {{ return({'rows': [rows, 1] | max, 'inserts_only': false, 'uncounted': rows == 0}) }}
{% endmacro %}


{#- What an input's table went through between two of its versions, and whether its change feed can tell it.
    Returns rows (changed, an upper bound), commits (that changed rows), inserts_only, columns_added, columns_altered, and gap: why the range cannot
    be read, or none. -#}
{% macro _range(spec, from) %}
    {#- commits may have come since the version was pinned: ask for some more than the range -#}
    {%- set commits = _history(spec.source, spec.version - from.version + 20) if from.version <= spec.version else [] -%}
    {%- set range = _range_of(spec, from, commits) -%}
    {%- if range.gap or spec.kind == 'lookup' -%}
        {{ return(range) }}
    {%- endif -%}
    {%- if range.replaced or range.columns_altered -%}
        {#- in between as well: of columns that came and went the feed cannot be read -#}
        {%- set columns = _columns_around(spec.source, range.replaced, [from.version, spec.version]) -%}
        {%- if columns.values() | unique | list | length > 1 -%}
            {{ return(dict(range, gap=spec.source ~ (' was replaced by a table of other columns' if range.replaced else ' changed the types or the order of its columns'))) }}
        {%- endif -%}
    {%- endif -%}
    {%- if range.uncounted -%}
        {%- do range.update({'rows': run_query('select count(*) from ' ~ _feed_sql(spec.source, range.from, range.to)).rows[0][0] | int}) -%}
    {%- endif -%}
    {{ return(range) }}
{% endmacro %}


{#- Whether a commit puts other rows, and maybe other columns, in place of the whole table. -#}
{% macro _replaces_all(commit) %}
    {{ return('REPLACE' in commit.operation or commit.operation == 'RESTORE' or (commit.parameters.get('mode') == 'Overwrite' and not commit.parameters.get('predicate'))) }}
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


{#- What `_range` says, from commits that are already known, newest first. `replaced` are the versions that replaced the whole table. -#}
{% macro _range_of(spec, from, commits) %}
    {%- set result = {'rows': 0, 'commits': 0, 'inserts_only': true, 'columns_added': false, 'columns_altered': false, 'replaced': [], 'uncounted': false, 'gap': none, 'from': from.version, 'to': spec.version, 'versions': spec.version - from.version} -%}
    {%- set span = spec.source ~ ' from version ' ~ from.version ~ ' to ' ~ spec.version -%}
    {%- if from.version > spec.version -%}
        {%- do result.update({'gap': spec.source ~ ' is at version ' ~ spec.version ~ ', behind the ' ~ from.version ~ ' that was read last: it was restored elsewhere or made anew'}) -%}
        {{ return(result) }}
    {%- endif -%}
    {%- set base = namespace(found=false) -%}
    {%- set vacuums = [] -%}
    {%- for commit in commits -%}
        {%- if commit.version == from.version -%}
            {%- set base.found = _is_same_commit(commit, from) -%}
            {%- if not base.found -%}
                {%- do result.update({'gap': spec.source ~ ' is another table than the one that was read last: its version ' ~ from.version ~ ' has another date'}) -%}
            {%- endif -%}
        {%- elif from.version < commit.version <= spec.version -%}
            {%- set effect = _commit_effect(commit) -%}
            {%- if commit.operation == 'VACUUM START' -%}
                {%- do vacuums.append(_vacuumed_before(commit)) -%}
            {%- endif -%}
            {%- if effect.rows > 0 -%}
                {%- do result.update({
                    'rows': result.rows + effect.rows,
                    'commits': result.commits + 1,
                    'inserts_only': result.inserts_only and effect.inserts_only,
                    'uncounted': result.uncounted or effect.get('uncounted', false),
                }) -%}
                {%- if _replaces_all(commit) -%}{%- do result.replaced.append(commit.version) -%}{%- endif -%}
                {%- for horizon in vacuums if commit.at < horizon and not result.gap -%}
                    {%- do result.update({'gap': 'the change files of ' ~ spec.source ~ ' at version ' ~ commit.version ~ ' were vacuumed'}) -%}
                {%- endfor -%}
            {%- endif -%}
            {%- if commit.operation == 'ADD COLUMNS' -%}
                {%- do result.update({'columns_added': true}) -%}
            {%- elif commit.operation in ['CHANGE COLUMN', 'CHANGE COLUMNS', 'REPLACE COLUMNS'] -%}
                {%- do result.update({'columns_altered': true}) -%}
            {%- elif commit.operation in ['RENAME COLUMN', 'DROP COLUMNS'] -%}
                {%- do result.update({'gap': span ~ ' changed its columns (' ~ commit.operation ~ ' at version ' ~ commit.version ~ ')'}) -%}
            {%- endif -%}
            {%- set properties = _as_mapping(commit.parameters.get('properties')) -%}
            {%- if (commit.operation == 'SET TBLPROPERTIES' and (properties.get('delta.enableChangeDataFeed', 'true') | lower) == 'false')
                or (commit.operation == 'UNSET TBLPROPERTIES' and 'delta.enableChangeDataFeed' in (commit.parameters | string))
                or ((' TABLE AS SELECT' in commit.operation or 'REPLACE TABLE' in commit.operation) and (properties.get('delta.enableChangeDataFeed', 'false') | lower) != 'true') -%}
                {%- do result.update({'gap': span ~ ' was without its change data feed (version ' ~ commit.version ~ ')'}) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if not base.found and not result.gap -%}
        {%- do result.update({'gap': 'the history of ' ~ span ~ ' is no longer kept'}) -%}
    {%- endif -%}
    {{ return(result) }}
{% endmacro %}


{#- The moment up to which a VACUUM removed files that were no longer part of the table, in milliseconds since 1970. Of RETAIN, Delta
    follows 0 alone. -#}
{% macro _vacuumed_before(commit) %}
    {%- set all = commit.parameters.get('specifiedRetentionMillis') | string == '0' -%}
    {{ return(commit.at - (0 if all else commit.parameters.get('defaultRetentionMillis', 604800000) | int)) }}
{% endmacro %}
