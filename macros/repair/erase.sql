{#- Removes a person's rows from every table that may have them, in three steps; each resumes after the one before:
    1. delete them from the tables that receive records (sources, their quarantine, seeds), from SCD type 2 models and from backups;
    2. `dbt run` propagates the deletion to the models that follow;
    3. rewrite and vacuum the files that still hold them, and search everything that is left: the proof.
    No statement and no record has the value: see scripts/headwaters/tables/erasure_run.py. -#}
{% macro erase(subject, reason=none, dry_run=true, keep=[]) %}
    {%- if not dry_run -%}{%- do hw_require_reason('erase', reason) -%}{%- endif -%}
    {%- set wanted = hw_subject_of_erasure(subject) -%}
    {%- if reason and wanted.erasure.is_told(reason) -%}
        {{ hw_raise('HW_SUBJECT_IN_REASON', 'erase: the reason names the person, and it is kept: name the request instead. '
            ~ 'Nothing was changed.') }}
    {%- endif -%}
    {%- for mark in keep if not modules.re.fullmatch('[0-9a-f]{12,64}', mark) -%}
        {{ hw_raise('HW_ARGUMENT', 'erase: keep has ' ~ tojson(mark) ~ ', which is no SHA-256 of a record: write 12 '
            ~ 'to 64 of its digits, as the plan shows them. Nothing was changed.') }}
    {%- endfor -%}
    {%- set places = hw_places_of(wanted) -%}
    {%- do hw_refuse_interrupted_streams(places, wanted) -%}
    {%- do hw_count_rows_of_subject(places, wanted, keep) -%}
    {%- set direct = places | selectattr('rows') | rejectattr('follows') | list -%}
    {%- set waiting = places | selectattr('rows') | selectattr('follows') | list -%}
    {%- set beside = hw_files_beside_tables(places, wanted, wanted.columns) -%}
    {%- do hw_drop_hidden_tables_with(wanted, keep, beside, reason, dry_run) -%}
    {{ print((hw_rows_report(places, wanted) + beside.lines) | join('\n')) }}
    {%- if direct and dry_run -%}
        {{ print('erase: a dry run, nothing was changed; dry_run: false and a reason delete the rows of '
            ~ direct | map(attribute='name') | join(', ')) }}
    {%- elif direct -%}
        {%- do hw_erase_rows(direct, wanted, reason) -%}
    {%- elif waiting -%}
        {{ print('erase: nothing was changed; `dbt run` propagates the deletion to ' ~ waiting | map(attribute='name') | join(', ')
            ~ ', then run erase again') }}
    {%- else -%}
        {%- if not hw_was_erased(wanted) -%}{%- do hw_refuse_unknown(places, wanted, keep) -%}{%- endif -%}
        {%- do hw_prove_erasure(places, wanted, reason, dry_run, keep, beside) -%}
    {%- endif -%}
{% endmacro %}


{#- Searches each place: sets detail, rows (that have the person), hashes (of rows with the person in encoded text) and undecided
    (texts that cannot be parsed). -#}
{% macro hw_count_rows_of_subject(places, wanted, keep) %}
    {%- for place in places -%}
        {%- do wanted.erasure.steps.tell('erase: searching ' ~ place.name ~ ', ' ~ loop.index ~ ' of ' ~ places | length) -%}
        {%- do place.update({'detail': run_query('describe detail ' ~ place.relation).rows[0]}) -%}
        {%- if adapter.commits.as_mapping(place.detail['properties']).get('delta.columnMapping.mode', 'none') != 'none' -%}
            {{ hw_raise('HW_COLUMN_MAPPING', 'erase: ' ~ place.name ~ ' has column mapping: the columns of its files have '
                ~ 'other names, so that they cannot be searched here. Nothing was changed.') }}
        {%- endif -%}
        {%- set condition = hw_has_value(place.columns, '(select _headwaters_value from headwaters_erased)') -%}
        {%- set told = run_query('select count(*) as rows from ' ~ place.relation ~ ' where ' ~ condition).rows[0]['rows'] | int
            if place.columns else 0 -%}
        {%- set decided = wanted.erasure.rows(place.relation, condition, place.texts, keep) -%}
        {%- do place.update({'told': told, 'rows': told + decided.rows, 'hashes': decided.hashes, 'undecided': decided.undecided}) -%}
    {%- endfor -%}
{% endmacro %}


{% macro hw_rows_report(places, wanted) %}
    {%- set digest = wanted.erasure.digest(false) -%}
    {%- set lines = ['erase: ' ~ wanted.kind ~ (' with keyed hash ' ~ digest[:12] ~ '…' if digest else '') ~ ', in ' ~ places | length
        ~ ' tables'] -%}
    {%- for place in places -%}
        {%- do lines.append('  ' ~ ('-' if place.rows else ' ') ~ ' ' ~ place.name ~ ': ' ~ place.rows ~ ' rows'
            ~ (' (follows its inputs: dbt run)' if place.follows and place.rows else '')) -%}
        {%- for mark, sql in place.undecided.items() -%}
            {%- do lines.append('  ? ' ~ place.name ~ ': a record mentions the value and cannot be parsed: sha2(' ~ sql ~ ", 256) = '"
                ~ mark ~ "'") -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if places | selectattr('undecided') | list -%}
        {%- do lines.append("  ? not decidable here: read each, and either delete it (delete_where with the condition shown), "
            ~ "or list it in keep: ['…'] if it is another's") -%}
    {%- endif -%}
    {{ return(lines) }}
{% endmacro %}


{#- Returns true if an erasure of this value has begun: then a search without matches is expected. -#}
{% macro hw_was_erased(wanted) %}
    {%- set digest = wanted.erasure.digest(false) -%}
    {%- if not digest or adapter.get_relation(none, hw_ops_schema(), 'operations') is none -%}{{ return(false) }}{%- endif -%}
    {{ return(run_query(hw_erasures_of_sql(digest)).rows | length > 0) }}
{% endmacro %}


{% macro hw_erasures_of_sql(digest) -%}
    select 1 from {{ hw_ops_name('operations') }}
    where operation = 'erase' and arguments like '%{{ digest }}%' limit 1
{%- endmacro %}


{#- A typing error must not end in a proof. -#}
{% macro hw_refuse_unknown(places, wanted, keep) %}
    {%- set found = namespace(any=false) -%}
    {%- for place in places if not found.any -%}
        {%- set found.any = place.undecided | length > 0
            or wanted.erasure.data_files(place.detail['location'], place.columns, place.texts, keep).found > 0 -%}
    {%- endfor -%}
    {%- if not found.any -%}
        {{ hw_raise('HW_NO_SUCH_SUBJECT', 'erase: no table has this ' ~ wanted.kind ~ ', in no row and in no file'
            ~ (' (there is no table of the project in this lake)' if not places else '') ~ '; nothing was changed. Is the '
            ~ 'value written as it is in the tables?') }}
    {%- endif -%}
{% endmacro %}


{% macro hw_erase_rows(places, wanted, reason) %}
    {%- set undo = [] -%}
    {#- if a row is only marked as deleted, the statistics of a new commit have its value -#}
    {%- do run_query('set `spark.databricks.delta.merge.deletionVectors.persistent` = false') -%}
    {#- a merge that repartitions rows does not find a partition column with a dot in its name -#}
    {%- do run_query('set `spark.databricks.delta.merge.repartitionBeforeWrite.enabled` = false') -%}
    {%- for place in places -%}
        {%- do wanted.erasure.steps.tell('erase: deleting from ' ~ place.name ~ ', ' ~ loop.index ~ ' of ' ~ places | length) -%}
        {%- do hw_refuse_pending('erase', place.name, place.detail['properties']) -%}
        {%- set version = hw_newest_commit(place.relation).version -%}
        {%- set record = hw_begin_operation('erase', place.name, reason,
            {'subject': wanted.kind, 'keyed_hash': wanted.erasure.digest(true), 'rows': place.rows}, version, place.detail,
            hw_restore_sql(place.relation, version)) -%}
        {%- if place.told -%}
            {%- set condition = hw_has_value(place.columns, 's._headwaters_value') -%}
            {%- do run_query(hw_delete_joined_sql(place.relation, 'headwaters_erased', condition)) -%}
        {%- endif -%}
        {%- if place.hashes -%}
            {%- do wanted.erasure.stage(place.hashes) -%}
            {%- set condition = wanted.erasure.hash_of(place.texts) ~ ' = s._headwaters_hash' -%}
            {%- do run_query(hw_delete_joined_sql(place.relation, 'headwaters_erased_rows', condition)) -%}
        {%- endif -%}
        {%- do record.update({'undo': hw_undo_of(record, place.relation)}) -%}
        {%- do hw_finish_operation(record, hw_newest_commit(place.relation).version) -%}
        {%- do undo.append(record.undo) -%}
    {%- endfor -%}
    {%- do run_query('reset `spark.databricks.delta.merge.deletionVectors.persistent`') -%}
    {%- do run_query('reset `spark.databricks.delta.merge.repartitionBeforeWrite.enabled`') -%}
    {{ print('erase: deleted from ' ~ places | map(attribute='name') | join(', ') ~ '; undo:\n  '
        ~ hw_undo_command(undo) ~ '\nThe undo also reverts later writes to these tables.\nNow `dbt run`, then run erase again: it '
        ~ 'removes the files and searches what is left.') }}
{% endmacro %}


{#- Deletes by a join: a DELETE writes its condition, with the value, into the commit, and supports no subqueries. -#}
{% macro hw_delete_joined_sql(relation, source, condition) -%}
    merge into {{ relation }} as t using {{ source }} as s
    on {{ condition }}
    when matched then delete
{%- endmacro %}
