{#- Prints and returns every backup and dropped table with its original, its reason and its expiry. -#}
{% macro list_backups() %}
    {%- set backups = hw_backups() -%}
    {%- for backup in backups -%}
        {{ print(backup.name ~ ': version ' ~ backup.version ~ ' of ' ~ backup.of ~ ', until ' ~ backup.expires
            ~ (' (expired)' if backup.expired else '') ~ ', ' ~ backup.reason) }}
    {%- endfor -%}
    {{ print(backups | length ~ ' backups, ' ~ backups | selectattr('expired') | list | length ~ ' expired') }}
    {{ return(backups) }}
{% endmacro %}


{% macro hw_backups() %}
    {%- set schemas = [] -%}
    {%- for node in graph.nodes.values() | list + graph.sources.values() | list if node.resource_type in ['model', 'seed', 'source']
        and node.schema not in schemas -%}
        {%- do schemas.append(node.schema) -%}
    {%- endfor -%}
    {%- set known = run_query('show schemas').columns[0].values() -%}
    {%- set backups = [] -%}
    {%- for schema in schemas | sort if schema in known -%}
        {%- for identifier in hw_tables_in(schema) if modules.re.search('_version_\\d+$|__dropped_\\d+$', identifier) -%}
            {%- set relation = hw_quoted_name(schema, identifier) -%}
            {%- set properties = adapter.commits.as_mapping(run_query('describe detail ' ~ relation).rows[0]['properties']) -%}
            {#- a clone of a backup has its properties as well, but is another user's table: its name shows that it is not a backup -#}
            {%- set original = (properties.get('headwaters.backup.of') or '').split('.', 1) -%}
            {%- set names = modules.re.escape(original[-1]) ~ '(_version_' ~ properties.get('headwaters.backup.version')
                ~ '|__dropped_\\d+)' -%}
            {%- if original[0] == schema and modules.re.fullmatch(names, identifier) -%}
                {%- do backups.append({
                    'name': schema ~ '.' ~ identifier, 'relation': relation, 'of': properties['headwaters.backup.of'],
                    'version': properties['headwaters.backup.version'],
                    'expires': properties['headwaters.backup.expires'], 'reason': properties['headwaters.backup.reason'],
                    'expired': properties['headwaters.backup.expires'] < run_started_at.strftime('%Y-%m-%dT%H:%M:%SZ'),
                }) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(backups) }}
{% endmacro %}
