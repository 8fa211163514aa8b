{#- Describes a table's files in two statements: DESCRIBE DETAIL, and one read of its log: the commits, and the checksum file of the newest,
    which has the number, sizes and deleted rows of the files (Delta protocol, Version Checksum File). -#}
{% macro hw_table_state(name, relation) %}
    {%- set detail = run_query('describe detail ' ~ relation).rows[0] -%}
    {%- set properties = adapter.commits.as_mapping(detail['properties']) -%}
    {%- set retention = adapter.units.milliseconds_of(properties.get('delta.deletedFileRetentionDuration', 'interval 1 week')) -%}
    {%- set log = run_query(hw_log_sql(relation, detail)).rows[0] -%}
    {%- set checksum = fromjson(log['checksum'], {}) if log['checksum'] else {} -%}
    {%- set schema = fromjson(checksum.get('metadata', {}).get('schemaString') or '{}') -%}
    {#- a writer committed in between: the checksum describes the files of another version -#}
    {%- if checksum.get('numFiles') != detail['numFiles'] -%}{%- set checksum = {} -%}{%- endif -%}
    {{ return({
        'name': name, 'relation': relation, 'detail': detail, 'properties': properties,
        'version': log['newest'] | int, 'versions': log['commits'] | int,
        'files': detail['numFiles'] | int, 'bytes': detail['sizeInBytes'] | int, 'rows': log['rows'] | int,
        'sizes': checksum.get('fileSizeHistogram'),
        'deleted_rows': (checksum.get('numDeletedRecordsOpt') or 0) | int,
        'added': log['added'] | int, 'removals': fromjson(log['removals'] or '[]', []),
        'optimized_at': log['optimized_at'] | int if log['optimized_at'] is not none else none,
        'vacuumed_before': adapter.commits.vacuumed_before_in(log['vacuums']),
        'retention': retention | int, 'log_is_whole': log['oldest'] | int == 0, 'fields': schema.get('fields') or [],
        'clone_of': adapter.maintenance.origins_of(log['cloned_from'], log['cloned_version'], properties),
        'inputs': fromjson(properties.get('headwaters.inputs', 'null')) or {},
    }) }}
{% endmacro %}


{#- Returns one row: the newest and oldest version of the log, and their number; the rows of the table; the newest commit's checksum; files
    added since the last OPTIMIZE; the times at which commits removed files from the table, which a VACUUM could delete one retention later;
    the commits of each VACUUM, oldest first; and the source of the last clone. -#}
{% macro hw_log_sql(relation, detail) -%}
    {%- set metric = "cast(get_json_object(value, '$.commitInfo.operationMetrics.%s') as bigint)" -%}
    {%- set parameter = "get_json_object(value, '$.commitInfo.operationParameters.%s')" -%}
    with log as (
        select _metadata.file_name as name, value, _metadata.file_name like '%.crc' as is_checksum,
            cast(substr(_metadata.file_name, 1, 20) as bigint) as version,
            get_json_object(value, '$.commitInfo.operation') as operation,
            cast(get_json_object(value, '$.commitInfo.timestamp') as bigint) as at
        from text.{{ hw_quote(detail['location'] ~ '/_delta_log/*.{json,crc}') }}
        where _metadata.file_name rlike '^\\d{20}[.](json|crc)$' and (value like '{"commitInfo":%' or (_metadata.file_name like '%.crc'
            and _metadata.file_modification_time >= timestamp_millis({{ adapter.commits.milliseconds(detail['lastModified']) - 60000 }})))
    ),
    commits as (
        select *,
            coalesce({{ metric % 'numTargetFilesAdded' }}, {{ metric % 'numAddedFiles' }}, {{ metric % 'numFiles' }}, 0) as added,
            coalesce({{ metric % 'numTargetFilesRemoved' }}, {{ metric % 'numRemovedFiles' }}, 0)
                + coalesce({{ metric % 'numDeletionVectorsRemoved' }}, 0) as removed
        from log where not is_checksum
    ),
    optimized as (select coalesce(max(version), -1) as version, max(at) as at from commits where operation = 'OPTIMIZE')
    select max(commits.version) as newest, min(commits.version) as oldest, count(*) as commits,
        (select count(*) from {{ relation }}) as rows,
        (select max_by(value, version) from log where is_checksum) as checksum,
        (select at from optimized) as optimized_at,
        coalesce(sum(case when commits.version > (select version from optimized) then added end), 0) as added,
        to_json(array_sort(collect_set(
            case when removed > 0 or operation like '%TABLE AS SELECT' or operation = 'RESTORE' then at end))) as removals,
        to_json(array_sort(collect_list(case when operation like 'VACUUM%' then
            struct(commits.version, at, get_json_object(value, '$.commitInfo') as info) end))) as vacuums,
        max_by({{ parameter % 'source' }}, version) filter (where operation = 'CLONE') as cloned_from,
        max_by(cast({{ parameter % 'sourceVersion' }} as bigint), version) filter (where operation = 'CLONE') as cloned_version
    from commits
{%- endmacro %}


{#- Returns the number and the total size of files smaller than `bytes`, from the histogram of the checksum; without a histogram, all files
    count with their mean size. -#}
{% macro hw_small_files(state, bytes) %}
    {%- if not state.sizes -%}
        {{ return({'files': state.files, 'bytes': state.bytes} if state.files and state.bytes / state.files < bytes
            else {'files': 0, 'bytes': 0}) }}
    {%- endif -%}
    {%- set boundaries = state.sizes.sortedBinBoundaries -%}
    {%- set small = namespace(files=0, bytes=0) -%}
    {%- for count in state.sizes.fileCounts -%}
        {%- if loop.index < boundaries | length and boundaries[loop.index] <= bytes -%}
            {%- set small.files = small.files + count -%}
            {%- set small.bytes = small.bytes + state.sizes.totalBytes[loop.index0] -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({'files': small.files, 'bytes': small.bytes}) }}
{% endmacro %}
