{#- Selects the change data feed of a table after version `after` up to version `to`: its rows with _change_type, _commit_version and
    _commit_timestamp. -#}
{% macro hw_feed_sql(source, after, to) %}
    {{- return('table_changes(' ~ hw_literal(source) ~ ', ' ~ (after + 1) ~ ', ' ~ to ~ ')') -}}
{% endmacro %}


{#- Returns the change data feed of a range, as a relation. Reading it fails at U+FFFD in a text, which Delta's feed has instead of bytes
    that are not UTF-8: see scripts/headwaters/runs/work.py. If a run of this invocation has handed on the rows,
    or this run has stored them, reads them from there. -#}
{% macro hw_feed_of_range(source, range) %}
    {%- if range.at_hand -%}{{ return(range.at_hand) }}{%- endif -%}
    {%- set guard = hw_text_guard(range.texts) -%}
    {%- set feed = hw_feed_sql(source, range.after, range.to) -%}
    {{ return('(select * from ' ~ feed ~ ' where ' ~ guard ~ ')' if guard else feed) }}
{% endmacro %}


{#- Returns a staging table whose rows have been written, in the form of the change data feed. -#}
{% macro hw_cached_change_set_sql(change_set) -%}
(select * except ({{ change_set.beside | join(', ') }}), if(_operation = 'update', 'update_postimage', _operation) as _change_type,
0L as _commit_version, cast(null as timestamp) as _commit_timestamp from {{ change_set.stage }}
union all
select _replaced.*, 'update_preimage', 0L, null from {{ change_set.stage }} where _operation = 'update')
{%- endmacro %}


{% macro hw_text_guard(texts) %}
    {%- set conditions = [] -%}
    {%- for name in texts -%}{%- do conditions.append('contains(cast(' ~ hw_quote(name) ~ " as string), '\ufffd')") -%}{%- endfor -%}
    {{ return('if(' ~ conditions | join(' or ') ~ ", raise_error('HW_NOT_UTF8'), true)" if conditions else '') }}
{% endmacro %}


{#- Selects a row if one of the versions has bytes that are not UTF-8. `texts` has the text columns by version. -#}
{% macro hw_other_bytes_sql(source, texts) -%}
    {%- for version, names in texts.items() %}
    select 1 from {{ source }} version as of {{ version }} where not (
        {%- for name in names %}
        coalesce(is_valid_utf8(cast({{ hw_quote(name) }} as string)), true){{ ' and' if not loop.last }}
        {%- endfor %}
    )
    {{- ' union all' if not loop.last }}
    {%- endfor %}
    limit 1
{%- endmacro %}
