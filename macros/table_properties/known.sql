{#- The table properties that Delta 4.4 knows and what their values may be: `boolean`, `interval`, `integer`, `columns`, `text`, a list of
    what is allowed, or `server` for what Delta sets by itself. A test holds the list against Delta. -#}
{% macro hw_known_properties() %}
    {{ return({
        'delta.appendOnly': 'boolean',
        'delta.autoOptimize': 'boolean',
        'delta.autoOptimize.autoCompact': 'boolean',
        'delta.autoOptimize.optimizeWrite': 'boolean',
        'delta.castIcebergTimeType': 'boolean',
        'delta.checkpoint.writeStatsAsJson': 'boolean',
        'delta.checkpoint.writeStatsAsStruct': 'boolean',
        'delta.checkpointInterval': 'integer',
        'delta.checkpointPolicy': ['classic', 'v2'],
        'delta.checkpointRetentionDuration': 'interval',
        'delta.columnMapping.maxColumnId': 'server',
        'delta.columnMapping.mode': ['none', 'name', 'id'],
        'delta.compatibility.symlinkFormatManifest.enabled': 'boolean',
        'delta.dataSkippingNumIndexedCols': 'integer',
        'delta.dataSkippingStatsColumns': 'columns',
        'delta.dataSkippingStringPrefixLength': 'integer',
        'delta.deletedFileRetentionDuration': 'interval',
        'delta.dropFeatureTruncateHistory.retentionDuration': 'interval',
        'delta.enableChangeDataFeed': 'boolean',
        'delta.enableDeletionVectors': 'boolean',
        'delta.enableExpiredLogCleanup': 'boolean',
        'delta.enableFullRetentionRollback': 'boolean',
        'delta.enableIcebergCompatV1': 'boolean',
        'delta.enableIcebergCompatV2': 'boolean',
        'delta.enableIcebergCompatV3': 'boolean',
        'delta.enableInCommitTimestamps': 'boolean',
        'delta.enableMaterializePartitionColumnsFeature': 'boolean',
        'delta.enableRowTracking': 'boolean',
        'delta.enableTypeWidening': 'boolean',
        'delta.enableVariantShredding': 'boolean',
        'delta.ignoreProtocolDefaults': 'boolean',
        'delta.inCommitTimestampEnablementTimestamp': 'server',
        'delta.inCommitTimestampEnablementVersion': 'server',
        'delta.isolationLevel': ['Serializable'],
        'delta.logRetentionDuration': 'interval',
        'delta.minReaderVersion': 'integer',
        'delta.minWriterVersion': 'integer',
        'delta.parquet.format.version': ['1.0.0', '2.12.0'],
        'delta.randomPrefixLength': 'integer',
        'delta.randomizeFilePrefixes': 'boolean',
        'delta.requireCheckpointProtectionBeforeVersion': 'server',
        'delta.rowTrackingSuspended': 'server',
        'delta.sampleRetentionDuration': 'interval',
        'delta.setTransactionRetentionDuration': 'interval',
        'delta.universalFormat.enabledFormats': 'text',
        'delta.writePartitionColumnsToParquet': 'boolean',
    }) }}
{% endmacro %}


{#- The named sets of properties. `interop`: what Trino, delta-rs, Polars, pyarrow and DuckDB all read; see docs/tables.md. -#}
{% macro hw_property_sets() %}
    {{ return({
        'interop': {
            'delta.enableDeletionVectors': 'false',
            'delta.columnMapping.mode': 'none',
            'delta.enableTypeWidening': 'false',
            'delta.checkpointPolicy': 'classic',
        },
    }) }}
{% endmacro %}


{#- Why a property needs `allow_protocol_upgrade`: it changes the table's protocol in a way that cannot be undone, or that an engine of
    docs/tables.md cannot read. None where it needs no leave. -#}
{% macro hw_protocol_upgrade(name, value) %}
    {%- if name == 'delta.columnMapping.mode' and value != 'none' -%}
        {{ return('with column mapping pyarrow reads NULLs, without an error') }}
    {%- elif name == 'delta.enableTypeWidening' and value == 'true' -%}
        {{ return('a widened column silently vanishes in Trino') }}
    {%- elif name == 'delta.checkpointPolicy' and value == 'v2' -%}
        {{ return('Polars cannot read a table with v2 checkpoints') }}
    {%- elif name in ['delta.enableIcebergCompatV1', 'delta.enableIcebergCompatV2', 'delta.enableIcebergCompatV3'] and value == 'true' -%}
        {{ return('it brings column mapping, with which pyarrow reads NULLs, without an error') }}
    {%- elif name in ['delta.minReaderVersion', 'delta.minWriterVersion'] or name.startswith('delta.feature.') -%}
        {{ return("a table's protocol cannot be lowered again") }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Refuses a property that Delta does not know, a value of the wrong kind, and a protocol change that nobody allowed. Called while the
    project is parsed, so that a typing error costs a second and not a run. -#}
{% macro hw_check_properties(where, config) %}
    {%- set set_name = hw_setting(config, 'property_set') -%}
    {%- if set_name and set_name not in hw_property_sets() -%}
        {{ exceptions.raise_compiler_error(where ~ ": there is no property_set '" ~ set_name ~ "': there is " ~ hw_property_sets() | join(', ')) }}
    {%- endif -%}
    {%- set known = hw_known_properties() -%}
    {%- for name, value in hw_declared_properties(config).items() -%}
        {%- set kind = known.get(name) or ('feature' if name.startswith('delta.feature.')) -%}
        {%- if name.startswith('headwaters.') or name.startswith('delta.constraints.') -%}
            {{ exceptions.raise_compiler_error(where ~ ": tblproperties: '" ~ name ~ "' is not for people to set: "
                ~ ('headwaters keeps its own notes under headwaters.' if name.startswith('headwaters.') else 'declare a constraint of type check instead.')) }}
        {%- elif name.lower().startswith('delta.') and not kind -%}
            {%- set near = hw_nearest(name, known) -%}
            {{ exceptions.raise_compiler_error(where ~ ": tblproperties: there is no property '" ~ name ~ "'"
                ~ (", did you mean '" ~ near ~ "'?" if near else '. docs.delta.io lists the table properties of Delta.')) }}
        {%- elif kind == 'server' -%}
            {{ exceptions.raise_compiler_error(where ~ ": tblproperties: '" ~ name ~ "' is set by Delta itself: leave it out.") }}
        {%- elif kind and hw_normal_value(kind, value) is none -%}
            {{ exceptions.raise_compiler_error(where ~ ": tblproperties: '" ~ name ~ "' is '" ~ value ~ "', it must be " ~ {
                'boolean': 'true or false', 'integer': 'a whole number', 'columns': 'a list of columns, separated by commas', 'feature': 'supported',
                'interval': 'a length of time such as interval 30 days, in weeks, days, hours or less',
            }.get(kind if kind is string else '', 'one of ' ~ kind | join(', ')) ~ '.') }}
        {%- elif kind and hw_protocol_upgrade(name, hw_normal_value(kind, value)) and not hw_setting(config, 'allow_protocol_upgrade') -%}
            {{ exceptions.raise_compiler_error(where ~ ": tblproperties: '" ~ name ~ "' changes the table's protocol: " ~ hw_protocol_upgrade(name, hw_normal_value(kind, value))
                ~ '. If that is meant, say allow_protocol_upgrade: true in the config or its meta.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- The name most like the given one, by shared pairs of letters; none where none is alike. -#}
{% macro hw_nearest(given, names) %}
    {%- set wanted = hw_letter_pairs(given) -%}
    {%- set best = namespace(name=none, likeness=0.5) -%}
    {%- for name in names -%}
        {%- set pairs = hw_letter_pairs(name) -%}
        {%- set shared = wanted | select('in', pairs) | list | length -%}
        {%- set likeness = 2 * shared / ([wanted | length + pairs | length, 1] | max) -%}
        {%- if likeness > best.likeness -%}
            {%- set best.name = name -%}
            {%- set best.likeness = likeness -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(best.name) }}
{% endmacro %}


{% macro hw_letter_pairs(name) %}
    {%- set letters = name | lower | replace('delta.', '') -%}
    {%- set pairs = [] -%}
    {%- for index in range(letters | length - 1) if letters[index:index + 2] not in pairs -%}
        {%- do pairs.append(letters[index:index + 2]) -%}
    {%- endfor -%}
    {{ return(pairs) }}
{% endmacro %}
