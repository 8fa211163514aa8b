{#- Removes a person's rows from every table that may have them, in three steps, each of which starts where the one before ended:
    1. delete them where records come in (sources, their quarantine, seeds), in histories and in backups;
    2. `dbt run` takes that to the models that follow;
    3. rewrite and vacuum the files that still hold them, and look into all that is left: the proof.
    The value itself is written nowhere: conditions and records have its SHA-256, since a commit's predicate outlives its rows. -#}
{% macro erase(subject, reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do _need_reason('erase', reason) -%}{%- endif -%}
    {%- set wanted = _subject(subject) -%}
    {%- set places = _places_of(wanted) -%}
    {%- set lines = [] -%}
    {%- set direct = [] -%}
    {%- set waiting = [] -%}
    {%- for place in places -%}
        {%- do place.update({'detail': run_query('describe detail ' ~ place.relation).rows[0]}) -%}
        {%- if _as_mapping(place.detail['properties']).get('delta.columnMapping.mode', 'none') != 'none' -%}
            {{ exceptions.raise_compiler_error('erase: ' ~ place.name ~ ' has column mapping: the columns of its files have other names, so nobody can look into them here. Nothing was changed.') }}
        {%- endif -%}
        {%- do place.update({'rows': run_query('select count(*) as rows from ' ~ place.relation ~ ' where ' ~ place.condition).rows[0]['rows'] | int}) -%}
        {%- do lines.append('  ' ~ ('-' if place.rows else ' ') ~ ' ' ~ place.name ~ ': ' ~ place.rows ~ ' rows' ~ (' (follows its inputs: dbt run)' if place.follows and place.rows else '')) -%}
        {%- if place.rows -%}{%- do (waiting if place.follows else direct).append(place) -%}{%- endif -%}
    {%- endfor -%}
    {{ print('erase: ' ~ wanted.kind ~ ' with SHA-256 ' ~ wanted.hash[:12] ~ '…, in ' ~ places | length ~ ' tables\n' ~ lines | join('\n')) }}
    {%- if direct -%}
        {%- if dry_run -%}
            {{ print('erase: a dry run, nothing was changed; dry_run: false and a reason delete the rows of ' ~ direct | map(attribute='name') | join(', ')) }}
        {%- else -%}
            {%- do _erase_rows(direct, wanted, reason) -%}
        {%- endif -%}
    {%- elif waiting -%}
        {{ print('erase: nothing was changed; `dbt run` takes the deletion to ' ~ waiting | map(attribute='name') | join(', ') ~ ', then run erase again') }}
    {%- else -%}
        {%- if not _was_erased(wanted) -%}{%- do _refuse_unknown(places, wanted) -%}{%- endif -%}
        {%- do _prove_erasure(places, wanted, reason, dry_run) -%}
    {%- endif -%}
{% endmacro %}


{#- Whether an erasure of this value was begun before: then it is no surprise that no row has it. -#}
{% macro _was_erased(wanted) %}
    {%- if adapter.get_relation(none, generate_schema_name('ops', none) | trim, 'operations') is none -%}{{ return(false) }}{%- endif -%}
    {{ return(run_query('select 1 from ' ~ _operations_name() ~ " where operation = 'erase' and arguments like '%" ~ wanted.hash ~ "%' limit 1").rows | length > 0) }}
{% endmacro %}


{#- A typing error must not end in a proof. -#}
{% macro _refuse_unknown(places, wanted) %}
    {%- set found = namespace(files=0) -%}
    {%- for place in places if not found.files -%}{%- set found.files = _scan(place, wanted).found -%}{%- endfor -%}
    {%- if not found.files -%}
        {{ exceptions.raise_compiler_error('erase: no table has this ' ~ wanted.kind ~ ', in no row and in no file; nothing was changed. Is the value written as it is in the tables?') }}
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
    {%- set value = subject[given] -%}
    {%- if value is not string -%}
        {{ exceptions.raise_compiler_error('erase: the value of ' ~ given ~ " is not a text: without quotes YAML makes 7 of 007. Write it in quotes, as it is in the tables: {" ~ given ~ ": '" ~ value ~ "'}. Nothing was changed.") }}
    {%- endif -%}
    {{ return({'kind': found[0], 'value': value, 'hash': run_query('select sha2(' ~ string_literal(value) ~ ', 256) as hash').rows[0]['hash']}) }}
{% endmacro %}


{% macro _pii(column) %}
    {{ return((column.get('config') or {}).get('meta', {}).get('pii') or (column.get('meta') or {}).get('pii')) }}
{% endmacro %}


{#- Every table that has columns of the kind: see _place. Columns are those that tables have, and YAML says what is in them. -#}
{% macro _places_of(wanted) %}
    {%- set nodes = {} -%}
    {%- set names = [] -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.resource_type in ['model', 'seed', 'source'] -%}
        {%- set said = {} -%}
        {%- for column in node.columns.values() -%}
            {%- do said.update({column.name | lower: _pii(column)}) -%}
            {%- if _pii(column) == wanted.kind -%}{%- do names.append(column.name | lower) -%}{%- endif -%}
        {%- endfor -%}
        {%- do nodes.update({node.schema ~ '.' ~ (node.identifier or node.alias): {'node': node, 'said': said}}) -%}
    {%- endfor -%}
    {%- set places = [] -%}
    {%- set undeclared = [] -%}
    {%- for name, its in nodes.items() -%}
        {%- set identifier = its.node.identifier or its.node.alias -%}
        {%- set table = adapter.get_relation(none, its.node.schema, identifier) -%}
        {%- set is_delta = table is not none and table.is_delta -%}
        {%- set held = adapter.get_columns_in_relation(table) | map(attribute='name') | list if is_delta else its.node.columns.values() | map(attribute='name') | list -%}
        {%- set columns = [] -%}
        {%- for column in held -%}
            {%- if its.said.get(column | lower) == wanted.kind -%}{%- do columns.append(column) -%}
            {%- elif column | lower in names and not its.said.get(column | lower) -%}{%- do undeclared.append(its.node.name ~ '.' ~ column) -%}{%- endif -%}
        {%- endfor -%}
        {%- if columns and is_delta -%}
            {%- do places.append(_place(name, table, columns, wanted, its.node.resource_type == 'model'
                and (its.node.config.materialized == 'table' or its.node.config.get('incremental_strategy') in ['change_feed', 'affected_keys', 'signed_sum']))) -%}
        {%- endif -%}
        {#- of a stream, or of a model's expectations -#}
        {%- set quarantine = adapter.get_relation(none, its.node.schema, identifier ~ '_quarantine') if wanted.kind in its.said.values() else none -%}
        {%- if quarantine is not none and quarantine.is_delta -%}{%- do places.append(_quarantine_place(name ~ '_quarantine', quarantine, wanted)) -%}{%- endif -%}
    {%- endfor -%}
    {%- if undeclared -%}
        {{ exceptions.raise_compiler_error('erase: ' ~ undeclared | join(', ') ~ ' has the name of a column with personal data (' ~ wanted.kind ~ ') and does not say whether it holds any: declare meta.pii for it, or pii: none. Nothing was changed.') }}
    {%- endif -%}
    {#- copies, and tables that were set aside, whose original may be gone from the project -#}
    {%- for backup in _backups() -%}
        {%- set copy = adapter.get_relation(none, backup.name.split('.', 1)[0], backup.name.split('.', 1)[1]) -%}
        {%- set held = adapter.get_columns_in_relation(copy) | map(attribute='name') | list -%}
        {%- set said = (nodes.get(backup.of) or {'said': {}}).said -%}
        {%- set columns = [] -%}
        {%- for column in held if column | lower in names and (said.get(column | lower) or wanted.kind) == wanted.kind -%}{%- do columns.append(column) -%}{%- endfor -%}
        {%- if columns -%}{%- do places.append(_place(backup.name, copy, columns, wanted, false)) -%}
        {%- elif backup.of.endswith('_quarantine') and 'record' in held -%}{%- do places.append(_quarantine_place(backup.name, copy, wanted)) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(places | sort(attribute='name')) }}
{% endmacro %}


{#- name, relation, columns, condition (takes the person's rows), follows (whether a run takes the deletion to it), record (whether it has records as they came). -#}
{% macro _place(name, table, columns, wanted, follows) %}
    {{ return({'name': name, 'relation': _named(table), 'columns': columns, 'condition': _has_value(columns, wanted), 'follows': follows, 'record': false}) }}
{% endmacro %}


{% macro _has_value(columns, wanted) %}
    {%- set conditions = [] -%}
    {%- for column in columns -%}{%- do conditions.append('sha2(cast(' ~ _quote(column) ~ " as string), 256) = '" ~ wanted.hash ~ "'") -%}{%- endfor -%}
    {{ return(conditions | join(' or ') or 'false') }}
{% endmacro %}


{#- A record that fits no contract has no columns: any that has the value as a word, as it is or as JSON writes it. -#}
{% macro _quarantine_place(name, table, wanted) %}
    {%- set word = '(?<![A-Za-z0-9])(?:' ~ modules.re.escape(wanted.value) ~ '|' ~ modules.re.escape(wanted.value | replace('\\', '\\\\') | replace('"', '\\"')) ~ ')(?![A-Za-z0-9])' -%}
    {{ return({'name': name, 'relation': _named(table), 'columns': [], 'condition': 'cast(record as string) rlike ' ~ string_literal(word), 'follows': false, 'record': true}) }}
{% endmacro %}


{% macro _erase_rows(places, wanted, reason) %}
    {%- set undo = [] -%}
    {%- for place in places -%}
        {%- set version = _newest_commit(place.relation).version -%}
        {%- set condition = place.condition -%}
        {%- if place.record -%}
            {%- set hashes = [] -%}
            {%- for row in run_query('select distinct sha2(record, 256) as hash from ' ~ place.relation ~ ' where ' ~ place.condition).rows -%}{%- do hashes.append("'" ~ row['hash'] ~ "'") -%}{%- endfor -%}
            {%- set condition = 'sha2(record, 256) in (' ~ hashes | join(', ') ~ ')' -%}
        {%- endif -%}
        {%- set record = _begin('erase', place.name, reason, {'subject': wanted.kind, 'sha256': wanted.hash, 'rows': place.rows}, version, place.detail, _restore_sql(place.relation, version)) -%}
        {%- do run_query('delete from ' ~ place.relation ~ ' where ' ~ condition) -%}
        {%- do record.update({'undo': _undo_of(record, place.relation)}) -%}
        {%- do _end(record, _newest_commit(place.relation).version) -%}
        {%- do undo.append(record.undo) -%}
    {%- endfor -%}
    {{ print('erase: deleted from ' ~ places | map(attribute='name') | join(', ') ~ '; rows written since are taken back too by its undo:\n  ' ~ undo | join(';\n  ') ~ ';\nnow `dbt run`, then run erase again: it removes the files and looks into what is left') }}
{% endmacro %}


{#- Rewrites files whose rows are only marked, looks for the value in every Parquet file that is still in a table's folder, change files included, and where it is in one, vacuums
    and looks again: files of which no commit tells are among them, too. What the table's retention keeps is gone by a date that the report names; run erase again after it. -#}
{% macro _prove_erasure(places, wanted, reason, dry_run) %}
    {%- set now = (modules.datetime.datetime.now(modules.pytz.utc).timestamp() * 1000) | int -%}
    {%- set states = {} -%}
    {%- for place in places -%}{%- do states.update({place.name: _table_state(place.name, place.relation)}) -%}{%- endfor -%}
    {%- set others = namespace(states=none) -%}
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
            {%- endif -%}
        {%- endif -%}
        {%- set scan = _scan(place, wanted) -%}
        {%- if scan.found and others.states is none -%}{%- set others.states = _states_of_all(states) -%}{%- endif -%}
        {%- set needed = _who_needs_vacuumed(state, others.states, now) if scan.found else '' -%}
        {%- if not dry_run -%}
            {%- if scan.found and not needed -%}
                {#- a second one removes the folders that the first left empty: those of a partition have the value in their name -#}
                {%- for time in range(2 if place.columns | select('in', _as_names(place.detail['partitionColumns'])) | list else 1) -%}
                    {%- do run_query(_vacuum_step(state, now, lite=false).sql) -%}
                {%- endfor -%}
                {%- set scan = _scan(place, wanted) -%}
            {%- endif -%}
            {%- do _end(record, _newest_commit(place.relation).version) -%}
        {%- endif -%}
        {%- set left.files = left.files + scan.found -%}
        {%- set removed = state.removals | max if state.removals else now -%}
        {%- set gone_by = (removed if removed + state.retention > now else now) + state.retention if scan.found else none -%}
        {%- do lines.append('  ' ~ place.name ~ ' (version ' ~ _newest_commit(place.relation).version ~ '): 0 rows; ' ~ scan.files ~ ' files looked into, the value is '
            ~ ('in none' if not scan.found else 'in ' ~ scan.found ~ ' that older versions need until ' ~ _utc(gone_by) ~ (', or longer, since ' ~ needed if needed else ''))) -%}
        {%- if not dry_run -%}
            {%- do run_query('insert into ' ~ _quoted_name(generate_schema_name('ops', none) | trim, 'erasures') ~ ' select current_timestamp(), ' ~ [string_literal(wanted.kind), string_literal(wanted.hash), string_literal(place.name),
                state.version | string, scan.files | string, scan.found | string, 'timestamp_millis(' ~ gone_by ~ ')' if gone_by else 'null', string_literal(reason), string_literal(_who()), string_literal(invocation_id)] | join(', ')) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ print(lines | join('\n') ~ '\nerase: ' ~ ('proven: no row and no file has the value' if not left.files else 'no row has the value; ' ~ left.files ~ ' files of older versions do, run erase again after the dates above')
        ~ ('' if not dry_run else ' (a dry run, nothing was changed)')) }}
{% endmacro %}


{#- How many Parquet files lie in a table's folder, and in how many of them the value is. Columns that a table is partitioned by are not in its files but in the names of folders. -#}
{% macro _scan(place, wanted) %}
    {%- set folder = place.detail['location'] | replace('`', '``') -%}
    {%- set partitioned = _as_names(place.detail['partitionColumns']) -%}
    {%- set named = [] -%}
    {%- for column in place.columns if column in partitioned -%}
        {%- do named.append("sha2(url_decode(replace(regexp_extract(path, " ~ string_literal('/' ~ modules.re.escape(column) ~ '=([^/]*)/') ~ ", 1), '+', '%2B')), 256) = '" ~ wanted.hash ~ "'") -%}
    {%- endfor -%}
    {%- set inside = place.condition if place.record else _has_value(place.columns | reject('in', partitioned) | list, wanted) -%}
    {%- set settings = {'spark.databricks.delta.formatCheck.enabled': 'false', 'spark.sql.parquet.mergeSchema': 'true'} -%}
    {%- for name, value in settings.items() -%}{%- do run_query('set `' ~ name ~ '` = ' ~ value) -%}{%- endfor -%}
    {%- set folders = [] -%}
    {#- _delta_log is always there, so that the path names something where there are no change files -#}
    {%- for path, like in {folder: '%.parquet', folder ~ '/{_change_data,_delta_log}': '%/\\_change\\_data/%.parquet'}.items() -%}
        {%- do folders.extend(run_query('select regexp_replace(path, "/[^/]*$", "") as folder, count(*) as files, max(' ~ (named | join(' or ') or 'false') ~ ') as is_named from binaryFile.`' ~ path
            ~ "` with ('recursiveFileLookup' = 'true') where path like \"" ~ like ~ '" group by 1 order by 1').rows | list) -%}
    {%- endfor -%}
    {%- set found = namespace(files=0, all=0) -%}
    {%- for row in folders -%}
        {%- set found.all = found.all + (row['files'] | int) -%}
        {%- if row['is_named'] -%}
            {%- set found.files = found.files + (row['files'] | int) -%}
        {%- elif inside != 'false' -%}
            {#- by its files: Spark takes a folder with a Delta log for no other table -#}
            {%- set found.files = found.files + (run_query('select count(distinct _metadata.file_path) as files from parquet.`' ~ row['folder'] | replace('`', '``') ~ '/*.parquet` where ' ~ inside).rows[0]['files'] | int) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for name in settings -%}{%- do run_query('reset `' ~ name ~ '`') -%}{%- endfor -%}
    {{ return({'files': found.all, 'found': found.files}) }}
{% endmacro %}


{% macro _erasures_table() %}
    {%- do run_query('create schema if not exists ' ~ _quote(generate_schema_name('ops', none) | trim)) -%}
    {%- do run_query('create table if not exists ' ~ _quoted_name(generate_schema_name('ops', none) | trim, 'erasures') ~ " (at timestamp comment 'When the files were looked into, UTC.', subject string comment 'The kind of personal data.', "
        ~ "sha256 string comment 'Of the value.', table_name string, version bigint, files bigint comment 'Looked into.', files_left bigint comment 'In which the value still is.', "
        ~ "gone_by timestamp comment 'When retention lets go of the last of them.', reason string, user string, invocation_id string) using delta comment 'One row per erasure and table: the proof.'") -%}
{% endmacro %}
