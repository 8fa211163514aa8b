{#- The settings of a model that follows change feeds: the rest is checked by scripts/headwaters/runs/checks.py. -#}
{% macro hw_check_settings(where, strategy, settings) %}
    {%- set choices = {'on_gap': ['rebuild', 'fail'], 'on_lookup_change': ['rebuild', 'ignore'],
        'on_foreign_write': ['rebuild', 'fail', 'warn'], 'incremental_proof': ['rules', 'sample'],
        'apply_by': ['keys', 'merge']} -%}
    {%- for setting, allowed in choices.items() if settings.get(setting, allowed[0]) not in allowed -%}
        {{ hw_raise('SETTING', where ~ ' has ' ~ setting ~ ': ' ~ settings.get(setting) ~ '. Allowed are ' ~ allowed | join(', ') ~ '.') }}
    {%- endfor -%}
    {%- if not strategy.may_ignore_lookups and settings.get('on_lookup_change') == 'ignore' -%}
        {%- set why = 'Its inputs are lookups, so no change would reach its table: leave it out, or name a strategy that follows an input.'
            if strategy.marker == 'lookup' else
            'A deleted row takes away what it added, which a lookup that changed no longer tells: use affected_keys, or rebuild.' -%}
        {{ hw_raise('SETTING', where ~ ' has on_lookup_change: ignore. ' ~ why) }}
    {%- endif -%}
    {%- if strategy.may_lack_key and not settings.get('unique_key') and settings.get('on_lookup_change') == 'ignore' -%}
        {{ hw_raise('SETTING', where ~ ' has on_lookup_change: ignore and no unique_key, so rows that a lookup has filled otherwise '
            ~ 'meanwhile could not be found. Name a unique_key.') }}
    {%- endif -%}
    {%- set share = settings.get('replace_above') -%}
    {%- if share is not none and (share is not number or share < 0) -%}
        {{ hw_raise('SETTING', where ~ ' has replace_above: ' ~ share ~ '. It is a share of the rows, 0.3 for 30 %.') }}
    {%- endif -%}
    {%- set functions = settings.get('allow_nondeterministic') -%}
    {%- if functions is not none and (functions is mapping or functions is not iterable) -%}
        {{ hw_raise('SETTING', where ~ ' has allow_nondeterministic: ' ~ functions
            ~ '. It is a list of functions, such as [current_date].') }}
    {%- endif -%}
    {%- for setting, owner in {'latest_by': 'change_feed', 'derived': 'signed_sum'}.items() if settings.get(setting)
        and strategy.configured_as != owner -%}
        {{ hw_raise('SETTING', where ~ ' has ' ~ setting ~ ', which belongs to ' ~ owner ~ ' and would do nothing here.') }}
    {%- endfor -%}
{% endmacro %}
