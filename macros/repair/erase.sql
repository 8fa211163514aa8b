{#- Removes a person's rows from every table that may have them, in three steps, each of which starts where the one before ended:
    1. delete them where records come in (sources, their quarantine, seeds), in histories and in backups;
    2. `dbt run` takes that to the models that follow;
    3. rewrite and vacuum the files that still hold them, and look into all that is left: the proof.
    The value itself is written nowhere: conditions and records have its SHA-256, since a commit's predicate outlives its rows. -#}
{% macro erase(subject, reason=none, dry_run=true) %}
    {%- set wanted = _subject(subject) -%}
    {%- set places = _places_of(wanted) -%}
    {%- set lines = [] -%}
    {%- set direct = [] -%}
    {%- set waiting = [] -%}
    {%- for place in places -%}
        {%- do place.update({'rows': run_query('select count(*) as rows from ' ~ place.relation ~ ' where ' ~ place.condition).rows[0]['rows'] | int}) -%}
        {%- do lines.append('  ' ~ ('-' if place.rows else ' ') ~ ' ' ~ place.name ~ ': ' ~ place.rows ~ ' rows' ~ (' (follows its inputs: dbt run)' if place.follows and place.rows else '')) -%}
        {%- if place.rows -%}{%- do (waiting if place.follows else direct).append(place) -%}{%- endif -%}
    {%- endfor -%}
    {{ print('erase: ' ~ wanted.kind ~ ' with SHA-256 ' ~ wanted.hash[:12] ~ '…, in ' ~ places | length ~ ' tables\n' ~ lines | join('\n')) }}
    {%- if not dry_run -%}{%- do _need_reason('erase', reason) -%}{%- endif -%}
    {%- if direct -%}
        {%- if dry_run -%}
            {{ print('erase: a dry run, nothing was changed; dry_run: false and a reason delete the rows of ' ~ direct | map(attribute='name') | join(', ')) }}
        {%- else -%}
            {%- do _erase_rows(direct, wanted, reason) -%}
        {%- endif -%}
    {%- elif waiting -%}
        {{ print('erase: nothing was changed; `dbt run` takes the deletion to ' ~ waiting | map(attribute='name') | join(', ') ~ ', then run erase again') }}
    {%- else -%}
        {%- do _prove_erasure(places, wanted, reason, dry_run) -%}
    {%- endif -%}
{% endmacro %}


{#- Of `{account_id: A17}` or `{account: A17}`: the kind of personal data that columns declare (`meta.pii`), and the value. -#}
{% macro _subject(subject) %}
    {%- set kinds = {} -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.resource_type in ['model', 'seed', 'source'] -%}
        {%- for column in node.columns.values() if _pii(column) and _pii(column) != 'none' -%}
            {%- do kinds.update({_pii(column): (kinds.get(_pii(column), []) + [column.name]) | unique | list}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if subject is not mapping or subject | length != 1 or subject.values() | list == [none] or not subject.values() | first | string | trim -%}
        {{ exceptions.raise_compiler_error('erase: subject must name one column or kind and its value, such as {account_id: A17}. Kinds of personal data: ' ~ kinds | sort | join(', ') ~ '.') }}
    {%- endif -%}
    {%- set given = subject | first -%}
    {%- set found = [] -%}
    {%- for kind, columns in kinds.items() if given == kind or given in columns -%}{%- do found.append(kind) -%}{%- endfor -%}
    {%- if found | length != 1 -%}
        {{ exceptions.raise_compiler_error("erase: '" ~ given ~ "' " ~ ('is the name of columns of ' ~ found | sort | join(' and of ') ~ ': name the kind' if found else 'is no kind of personal data and no column of one')
            ~ '. Columns declare theirs in meta.pii: ' ~ kinds | sort | join(', ') ~ '. Nothing was changed.') }}
    {%- endif -%}
    {%- set value = subject[given] | string -%}
    {{ return({'kind': found[0], 'value': value, 'hash': run_query('select sha2(' ~ string_literal(value) ~ ', 256) as hash').rows[0]['hash']}) }}
{% endmacro %}


{% macro _pii(column) %}
    {{ return((column.get('config') or {}).get('meta', {}).get('pii') or (column.get('meta') or {}).get('pii')) }}
{% endmacro %}


{#- Every table that has columns of the kind: name, relation, condition, follows (whether a run takes the deletion to it), columns. -#}
{% macro _places_of(wanted) %}
    {%- set places = [] -%}
    {%- set undeclared = [] -%}
    {%- set names = [] -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.resource_type in ['model', 'seed', 'source'] -%}
        {%- for column in node.columns.values() if _pii(column) == wanted.kind -%}{%- do names.append(column.name) -%}{%- endfor -%}
    {%- endfor -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.resource_type in ['model', 'seed', 'source'] -%}
        {%- set columns = [] -%}
        {%- for column in node.columns.values() -%}
            {%- if _pii(column) == wanted.kind -%}{%- do columns.append(column.name) -%}
            {%- elif column.name in names and not _pii(column) -%}{%- do undeclared.append(node.name ~ '.' ~ column.name) -%}{%- endif -%}
        {%- endfor -%}
        {%- set identifier = node.identifier or node.alias -%}
        {%- set relation = adapter.get_relation(none, node.schema, identifier) if columns else none -%}
        {%- if relation is not none and relation.is_delta -%}
            {%- set conditions = [] -%}
            {%- for column in columns -%}{%- do conditions.append('sha2(cast(' ~ adapter.quote(column) ~ " as string), 256) = '" ~ wanted.hash ~ "'") -%}{%- endfor -%}
            {%- do places.append({
                'name': node.schema ~ '.' ~ identifier, 'relation': _named(relation), 'condition': conditions | join(' or '), 'record': false,
                'follows': node.resource_type == 'model' and node.config.get('incremental_strategy') != 'history',
            }) -%}
        {%- endif -%}
        {%- set quarantine = adapter.get_relation(none, node.schema, identifier ~ '_quarantine') if columns and node.resource_type == 'source' else none -%}
        {%- if quarantine is not none and quarantine.is_delta -%}
            {#- a record that fits no contract has no columns: any that has the value as a word -#}
            {%- set word = '(?<![A-Za-z0-9])' ~ modules.re.escape(wanted.value) ~ '(?![A-Za-z0-9])' -%}
            {%- do places.append({
                'name': node.schema ~ '.' ~ identifier ~ '_quarantine', 'relation': _named(quarantine), 'condition': 'cast(record as string) rlike ' ~ string_literal(word), 'follows': false, 'record': true,
            }) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if undeclared -%}
        {{ exceptions.raise_compiler_error('erase: ' ~ undeclared | join(', ') ~ ' has the name of a column with personal data (' ~ wanted.kind ~ ') and does not say whether it holds any: declare meta.pii for it, or pii: none. Nothing was changed.') }}
    {%- endif -%}
    {%- set copies = [] -%}
    {%- for backup in _backups() -%}
        {%- for place in places if place.name == backup.of -%}
            {%- do copies.append(dict(place, name=backup.name, relation=backup.relation, follows=false)) -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return((places + copies) | sort(attribute='name')) }}
{% endmacro %}


{% macro _erase_rows(places, wanted, reason) %}
    {%- set undo = [] -%}
    {%- for place in places -%}
        {%- set detail = run_query('describe detail ' ~ place.relation).rows[0] -%}
        {%- set version = _newest_commit(place.relation).version -%}
        {%- set back = _restore_sql(place.relation, version) -%}
        {%- set condition = place.condition -%}
        {%- if place.record -%}
            {%- set hashes = [] -%}
            {%- for row in run_query('select distinct sha2(record, 256) as hash from ' ~ place.relation ~ ' where ' ~ place.condition).rows -%}{%- do hashes.append("'" ~ row['hash'] ~ "'") -%}{%- endfor -%}
            {%- set condition = 'sha2(record, 256) in (' ~ hashes | join(', ') ~ ')' -%}
        {%- endif -%}
        {%- set record = _begin('erase', place.name, reason, {'subject': wanted.kind, 'sha256': wanted.hash, 'rows': place.rows}, version, detail, back) -%}
        {%- do run_query('delete from ' ~ place.relation ~ ' where ' ~ condition) -%}
        {%- do _end(record, _newest_commit(place.relation).version) -%}
        {%- do undo.append(back) -%}
    {%- endfor -%}
    {{ print('erase: deleted from ' ~ places | map(attribute='name') | join(', ') ~ '; undo:\n  ' ~ undo | join(';\n  ') ~ ';\nnow `dbt run`, then run erase again: it removes the files and looks into what is left') }}
{% endmacro %}


{#- Rewrites files whose rows are only marked, vacuums, and looks for the value in every Parquet file that is still in a table's folder, change files
    included. What the table's retention keeps is gone by a date that the report names; run erase again after it. -#}
{% macro _prove_erasure(places, wanted, reason, dry_run) %}
    {%- set now = (modules.datetime.datetime.now(modules.pytz.utc).timestamp() * 1000) | int -%}
    {%- set states = {} -%}
    {%- for place in places -%}{%- do states.update({place.name: _table_state(place.name, place.relation)}) -%}{%- endfor -%}
    {%- set all = _states_of_all(states) -%}
    {%- set lines = [] -%}
    {%- set left = namespace(files=0) -%}
    {%- if not dry_run -%}{%- do _erasures_table() -%}{%- endif -%}
    {%- for place in places -%}
        {%- set state = states[place.name] -%}
        {%- if not dry_run -%}
            {%- set record = _begin('erase', place.name, reason, {'subject': wanted.kind, 'sha256': wanted.hash, 'step': 'files'}, state.version, state.detail, none) -%}
            {%- if state.deleted_rows or not state.sizes -%}
                {%- do run_query('reorg table ' ~ place.relation ~ ' apply (purge)') -%}
                {%- set state = _table_state(place.name, place.relation) -%}
                {%- do all.update({place.name: state}) -%}
            {%- endif -%}
            {%- set horizon = _vacuum_horizon(state, all, now) -%}
            {%- if _removed_before(state, horizon.at) -%}
                {#- not LITE: files that no commit names are looked for, too -#}
                {%- set step = _vacuum_step(dict(state, log_is_whole=false), horizon, now) -%}
                {%- do _sign_commits(record, {'vacuumed_before': step.before}) -%}
                {%- do run_query(step.sql) -%}
            {%- endif -%}
            {%- do _end(record, _newest_commit(place.relation).version) -%}
        {%- else -%}
            {%- set horizon = _vacuum_horizon(state, all, now) -%}
        {%- endif -%}
        {%- set scan = _scan(place, state) -%}
        {%- set left.files = left.files + scan.found -%}
        {%- set gone_by = ([state.removals | max if state.removals else now, now] | min) + state.retention if scan.found else none -%}
        {%- do lines.append('  ' ~ place.name ~ ' (version ' ~ _newest_commit(place.relation).version ~ '): 0 rows; ' ~ scan.files ~ ' files looked into, the value is '
            ~ ('in none' if not scan.found else 'in ' ~ scan.found ~ ' that older versions need until ' ~ _utc(gone_by) ~ (', or longer: ' ~ horizon.why if horizon.why else ''))) -%}
        {%- if not dry_run -%}
            {%- do run_query('insert into ' ~ _quoted_name(generate_schema_name('ops', none) | trim, 'erasures') ~ ' select current_timestamp(), ' ~ [string_literal(wanted.kind), string_literal(wanted.hash), string_literal(place.name),
                state.version | string, scan.files | string, scan.found | string, 'timestamp_millis(' ~ gone_by ~ ')' if gone_by else 'null', string_literal(reason), string_literal(_who()), string_literal(invocation_id)] | join(', ')) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ print(lines | join('\n') ~ '\nerase: ' ~ ('proven: no row and no file has the value' if not left.files else 'no row has the value; ' ~ left.files ~ ' files of older versions do, run erase again after the dates above')
        ~ ('' if not dry_run else ' (a dry run, nothing was changed)')) }}
{% endmacro %}


{#- How many Parquet files lie in a table's folder, and in how many of them the value is. -#}
{% macro _scan(place, state) %}
    {%- set folder = state.detail['location'] | replace('`', '``') -%}
    {%- set settings = {'spark.databricks.delta.formatCheck.enabled': 'false', 'spark.sql.parquet.mergeSchema': 'true'} -%}
    {%- for name, value in settings.items() -%}{%- do run_query('set `' ~ name ~ '` = ' ~ value) -%}{%- endfor -%}
    {#- _delta_log is always there, so that the path names something where there are no change files -#}
    {%- set listed = 'select regexp_replace(path, "/[^/]*$", "") as folder, count(*) as files from binaryFile.`%s` where path like "%%%s" group by 1 order by 1' -%}
    {%- set folders = run_query(listed % (folder, '.parquet')).rows | list + run_query(listed % (folder ~ '/{_change_data,_delta_log}', '/\\_change\\_data/%.parquet')).rows | list -%}
    {%- set found = namespace(files=0, all=0) -%}
    {%- for row in folders -%}
        {%- set found.all = found.all + (row['files'] | int) -%}
        {#- by its files: Spark takes a folder with a Delta log for no other table -#}
        {%- set found.files = found.files + (run_query('select count(distinct _metadata.file_path) as files from parquet.`' ~ row['folder'] | replace('`', '``') ~ '/*.parquet` where ' ~ place.condition).rows[0]['files'] | int) -%}
    {%- endfor -%}
    {%- for name in settings -%}{%- do run_query('reset `' ~ name ~ '`') -%}{%- endfor -%}
    {{ return({'files': found.all, 'found': found.files}) }}
{% endmacro %}


{% macro _erasures_table() %}
    {%- do run_query('create schema if not exists ' ~ adapter.quote(generate_schema_name('ops', none) | trim)) -%}
    {%- do run_query('create table if not exists ' ~ _quoted_name(generate_schema_name('ops', none) | trim, 'erasures') ~ " (at timestamp comment 'When the files were looked into, UTC.', subject string comment 'The kind of personal data.', "
        ~ "sha256 string comment 'Of the value.', table_name string, version bigint, files bigint comment 'Looked into.', files_left bigint comment 'In which the value still is.', "
        ~ "gone_by timestamp comment 'When retention lets go of the last of them.', reason string, user string, invocation_id string) using delta comment 'One row per erasure and table: the proof.'") -%}
{% endmacro %}
