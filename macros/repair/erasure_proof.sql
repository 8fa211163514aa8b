{#- Completes an erasure: rewrites files whose rows are only marked as deleted, and searches every Parquet file in a
    table's folder, including change files and files that no commit names. If the person is in a file, vacuums the table
    and searches again; then searches the log. The report names the date when retained files are gone; run erase again
    after it. The proof is written when all tables are done, so an interrupted step leaves no proof. -#}
{% macro hw_prove_erasure(places, wanted, reason, dry_run, keep, beside) %}
    {%- set now = (modules.datetime.datetime.now(modules.pytz.utc).timestamp() * 1000) | int -%}
    {%- set states = {} -%}
    {%- for place in places -%}{%- do states.update({place.name: hw_table_state(place.name, place.relation)}) -%}{%- endfor -%}
    {%- set others = {} -%}
    {%- set lines = [] -%}
    {%- set proof = [] -%}
    {%- set left = namespace(files=0, logs=0, texts=0) -%}
    {%- for place in places -%}
        {%- do wanted.erasure.steps.tell('erase: searching the files of ' ~ place.name ~ ', ' ~ loop.index ~ ' of ' ~ places | length) -%}
        {%- set look = hw_prove_table(place, states, others, wanted, reason, dry_run, keep, now) -%}
        {%- set left.files = left.files + look.files.found -%}
        {%- set left.logs = left.logs + look.logs.found -%}
        {%- set left.texts = left.texts + place.undecided | length -%}
        {%- do lines.append(hw_proof_line(place, look)) -%}
        {%- do proof.append(hw_proof_row(place, look, wanted, reason, dry_run)) -%}
    {%- endfor -%}
    {%- if not dry_run and proof -%}
        {%- do hw_create_ops_table('erasures') -%}
        {%- do run_query(hw_insert_erasures_sql(proof)) -%}
    {%- endif -%}
    {%- set rest = hw_left_of_subject(left, beside) -%}
    {{ print(lines | join('\n') ~ '\nerase: ' ~ ('no row has the value; ' ~ rest | join('; ') if rest
        else 'proven: no row, no file and no log of a table has the value')
            ~ ('' if not dry_run else ' (a dry run, nothing was changed)')) }}
{% endmacro %}


{#- `proof`: rows of hw_proof_row, as SQL. -#}
{% macro hw_insert_erasures_sql(proof) -%}
insert into {{ hw_ops_name('erasures') }} by name
select current_timestamp() as at, * from values {{ proof | join(', ') }} as proof (
    subject, keyed_hash, table_name, version, files, files_left, gone_by, reason, user, invocation_id, log_files, log_files_left,
    log_gone_by, undecided
)
{%- endmacro %}


{#- Returns one row of `ops.erasures`, as a row of `values`. -#}
{% macro hw_proof_row(place, look, wanted, reason, dry_run) %}
    {%- set gone_by = 'timestamp_millis(' ~ look.gone_by ~ ')' if look.gone_by else 'null' -%}
    {%- set log_gone_by = 'timestamp_millis(' ~ look.log_gone_by ~ ')' if look.log_gone_by else 'null' -%}
    {{ return('(' ~ [
        hw_literal(wanted.kind), hw_literal(wanted.erasure.digest(not dry_run) or ''), hw_literal(place.name), look.version | string,
        look.files.files | string, look.files.found | string, gone_by, hw_literal(reason), hw_literal(adapter.names.user_name()),
        hw_literal(invocation_id), look.logs.files | string, look.logs.found | string, log_gone_by, place.undecided | length | string,
    ] | join(', ') ~ ')') }}
{% endmacro %}


{#- Describes the remaining places of the subject, one text for each kind of place. -#}
{% macro hw_left_of_subject(left, beside) %}
    {%- set rest = [] -%}
    {%- if left.files -%}
        {%- do rest.append(left.files ~ ' files of older versions do: run erase again after the dates above') -%}
    {%- endif -%}
    {%- if left.logs -%}{%- do rest.append(left.logs ~ ' files of logs do, until retention removes them: see above') -%}{%- endif -%}
    {%- if left.texts -%}{%- do rest.append(left.texts ~ ' records may: nobody can parse them') -%}{%- endif -%}
    {%- if beside.found -%}
        {%- do rest.append(beside.found | length ~ ' places beside the tables do: clean what is marked with !') -%}
    {%- endif -%}
    {{ return(rest) }}
{% endmacro %}


{#- Returns version, files and logs (their number, and the number that has the person), gone_by and log_gone_by (milliseconds: the end of
    the last retention), needed (the readers that keep files). `others`: states of all tables, read once when a file is found. -#}
{% macro hw_prove_table(place, states, others, wanted, reason, dry_run, keep, now) %}
    {%- set state = states[place.name] -%}
    {%- set columns = place.columns + place.structs -%}
    {%- if not dry_run -%}
        {%- set record = hw_begin_operation('erase', place.name, reason,
            {'subject': wanted.kind, 'keyed_hash': wanted.erasure.digest(true), 'step': 'files'}, state.version, state.detail, none) -%}
        {%- if state.deleted_rows or not state.sizes -%}
            {%- do run_query('reorg table ' ~ place.relation ~ ' apply (purge)') -%}
            {%- set state = hw_table_state(place.name, place.relation) -%}
        {%- endif -%}
    {%- endif -%}
    {%- set files = wanted.erasure.data_files(place.detail['location'], place.columns, place.texts, keep) -%}
    {%- if files.found and not others -%}{%- do others.update(hw_states_of_all(states)) -%}{%- endif -%}
    {%- set needed = hw_vacuum_needs(state, others, now) if files.found else '' -%}
    {%- if not dry_run -%}
        {%- if files.found and not needed -%}
            {%- do run_query(hw_vacuum_step(state, now, lite=false).sql) -%}
            {%- set files = wanted.erasure.data_files(place.detail['location'], place.columns, place.texts, keep) -%}
        {%- endif -%}
        {%- do wanted.erasure.remove_emptied(place.detail['location'], place.columns) -%}
        {%- do hw_finish_operation(record, hw_newest_commit(place.relation).version) -%}
    {%- endif -%}
    {%- set logs = wanted.erasure.log_files(place.detail['location'], columns, place.texts,
        state.properties.get('delta.dataSkippingStringPrefixLength', 32) | int) -%}
    {%- set removed = state.removals | max if state.removals else now -%}
    {%- set kept = adapter.units.milliseconds_of(state.properties.get('delta.logRetentionDuration', 'interval 30 days')) | int -%}
    {{ return({
        'version': hw_newest_commit(place.relation).version, 'files': files, 'logs': logs, 'needed': needed,
        'gone_by': (removed if removed + state.retention > now else now) + state.retention if files.found else none,
        'log_gone_by': logs.newest + kept if logs.found else none,
    }) }}
{% endmacro %}


{% macro hw_proof_line(place, look) %}
    {%- set files = look.files.files ~ ' files searched, the value is '
        ~ ('in none' if not look.files.found else 'in ' ~ look.files.found ~ ' that older versions need until ' ~ hw_utc(look.gone_by)
        ~ (', or longer, since ' ~ look.needed if look.needed else '')) -%}
    {%- set logs = look.logs.files ~ ' files of its log searched, the value is '
        ~ ('in none' if not look.logs.found else 'in ' ~ look.logs.found ~ ', which Delta removes with the first checkpoint after '
        ~ hw_utc(look.log_gone_by) ~ ' (delta.logRetentionDuration)') -%}
    {{ return('  ' ~ place.name ~ ' (version ' ~ look.version ~ '): 0 rows; ' ~ files ~ '; ' ~ logs) }}
{% endmacro %}
