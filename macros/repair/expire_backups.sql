{#- Drops expired backups and expired tables that `drop` renamed. Prints a warning, because it cannot be undone. -#}
{% macro expire_backups(reason=none, dry_run=true) %}
    {%- if not dry_run -%}{%- do hw_require_reason('expire_backups', reason) -%}{%- endif -%}
    {%- set due = hw_backups() | selectattr('expired') | list -%}
    {%- set states = hw_states_of_all({}) if due else {} -%}
    {%- set expired = [] -%}
    {%- for backup in due -%}
        {%- set clones = hw_clones_of(states[backup.name], states) | map(attribute='name') | list -%}
        {%- if clones -%}{{ print('  ' ~ backup.name ~ ' is kept: ' ~ clones | join(', ') ~ ' is a shallow clone of it') }}
        {%- else -%}{%- do expired.append(backup) -%}{%- endif -%}
    {%- endfor -%}
    {%- for backup in expired -%}
        {{ print('- ' ~ backup.name ~ ': version ' ~ backup.version ~ ' of ' ~ backup.of ~ ', until ' ~ backup.expires) }}
    {%- endfor -%}
    {%- if not expired -%}
        {{ print('expire_backups: nothing to do') }}
    {%- elif dry_run -%}
        {{ print('expire_backups: a dry run, nothing was changed; dry_run: false and a reason drop ' ~ expired | length
            ~ ' tables for good') }}
    {%- else -%}
        {%- for backup in expired -%}
            {%- set record = hw_begin_operation('expire_backups', backup.name, reason, {'of': backup.of}, none, none, none) -%}
            {%- do run_query('drop table ' ~ backup.relation) -%}
            {%- do hw_finish_operation(record, none) -%}
        {%- endfor -%}
        {{ print('expire_backups: dropped ' ~ expired | length ~ ' tables; undo: there is none, their day had come') }}
    {%- endif -%}
{% endmacro %}
