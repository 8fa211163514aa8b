{#- Copies a version to `<table>_version_<n>`, with the day on which it expires. `shallow` copies no files but keeps VACUUM from removing
    those of the table. -#}
{% macro backup(table, version=none, reason=none, expires='30 days', shallow=false, dry_run=true) %}
    {%- if not dry_run -%}{%- do hw_require_reason('backup', reason) -%}{%- endif -%}
    {%- set target = hw_target('backup', table) -%}
    {%- set wanted = target.version if version is none else hw_version_of('backup', target.relation, version, none) -%}
    {%- set lasts = adapter.units.milliseconds_of(expires) -%}
    {%- if lasts is none -%}
        {{ hw_raise('HW_DURATION', "backup: expires is '" ~ expires ~ "': write a length of time, such as 30 days. "
            ~ "Nothing was changed.") }}
    {%- endif -%}
    {%- set identifier = target.identifier ~ '_version_' ~ wanted -%}
    {%- set copy = hw_quoted_name(target.schema, identifier) -%}
    {%- if adapter.get_relation(none, target.schema, identifier) is not none -%}
        {{ hw_raise('HW_BACKUP_EXISTS', 'backup: ' ~ target.schema ~ '.' ~ identifier ~ ' exists already. Nothing was changed.') }}
    {%- endif -%}
    {%- set until = (run_started_at + modules.datetime.timedelta(milliseconds=lasts)).strftime('%Y-%m-%dT%H:%M:%SZ') -%}
    {%- set properties = {'headwaters.backup.of': target.name, 'headwaters.backup.version': wanted, 'headwaters.backup.expires': until,
        'headwaters.backup.reason': reason} -%}
    {%- set source = target.relation ~ ' version as of ' ~ wanted -%}
    {%- if shallow -%}
        {%- set properties = dict(properties, **hw_clone_note(target.found, wanted)) -%}
        {%- do properties.update({'headwaters.inputs': 'null', 'headwaters.pending': 'null'}) -%}
    {%- endif -%}
    {%- set rows = run_query('select count(*) as rows from ' ~ source).rows[0]['rows'] -%}
    {%- set plan = [hw_target_line(target, rows), '  + ' ~ target.schema ~ '.' ~ identifier ~ ': version ' ~ wanted ~ ' until ' ~ until
        ~ (', over the same files' if shallow else '')] -%}
    {%- if not hw_proceed('backup', plan, dry_run) -%}{{ return(none) }}{%- endif -%}
    {%- set undo = 'drop table ' ~ copy -%}
    {%- set record = hw_begin_operation('backup', target.name, reason,
        {'version': wanted, 'as': identifier, 'expires': until, 'shallow': shallow}, target.version, target.detail, undo) -%}
    {%- do run_query((hw_shallow_copy_sql if shallow else hw_copy_sql)(copy, source, properties, target.detail)) -%}
    {%- do hw_finish_operation(record, target.version) -%}
    {{ print('backup: ' ~ target.schema ~ '.' ~ identifier ~ ' has version ' ~ wanted ~ ' of ' ~ target.name ~ ' until ' ~ until
        ~ '; undo:\n  ' ~ hw_undo_command([undo])) }}
{% endmacro %}


{% macro hw_copy_sql(copy, source, properties, detail) -%}
    create table {{ copy }} using delta
    {{- hw_layout_sql(hw_as_names(detail['partitionColumns']), hw_as_names(detail['clusteringColumns'])) }}
    tblproperties ({{ hw_assignments(properties) }})
    as select * from {{ source }}
{%- endmacro %}


{% macro hw_shallow_copy_sql(copy, source, properties, detail) -%}
    create table {{ copy }} shallow clone {{ source }}
    tblproperties ({{ hw_assignments(properties) }})
{%- endmacro %}
