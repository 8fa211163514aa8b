{#- Selects the change data feed of a table after version `after` up to version `to`: its rows with _change_type, _commit_version and
    _commit_timestamp. -#}
{% macro hw_feed_sql(source, after, to) %}
    {{- return('table_changes(' ~ hw_literal(source) ~ ', ' ~ (after + 1) ~ ', ' ~ to ~ ')') -}}
{% endmacro %}


{#- Returns the change data feed of a range, as a relation. Reading it fails at U+FFFD in a text, which Delta's feed has instead of bytes
    that are not UTF-8: see `hw_read_changes`. If a run of this invocation has handed on the rows, or this run has stored them, reads them
    from there. -#}
{% macro hw_feed_of_range(source, range) %}
    {%- if range.at_hand -%}{{ return(range.at_hand) }}{%- endif -%}
    {%- set guard = hw_text_guard(range.texts) -%}
    {%- set feed = hw_feed_sql(source, range.after, range.to) -%}
    {{ return('(select * from ' ~ feed ~ ' where ' ~ guard ~ ')' if guard else feed) }}
{% endmacro %}


{#- Returns a staging table whose rows have been written, in the form of the change data feed. -#}
{% macro hw_handed_on_sql(change_set) -%}
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


{#- Runs a statement over the change feeds of a plan. Returns `rows`, and `gap`: the reason why a feed cannot be read, or none. -#}
{% macro hw_read_changes(sql, plan) %}
    {%- set feeds = {} -%}
    {%- for source, range in plan.ranges.items() if range.rows > 0 -%}
        {%- do feeds.update({source: hw_feed_of_range(source, range)}) -%}
    {%- endfor -%}
    {%- set reading = adapter.read_changes(sql, feeds) -%}
    {%- if not reading.garbled or hw_has_other_bytes(reading.garbled, plan.ranges[reading.garbled]) -%}
        {{ return(reading) }}
    {%- endif -%}
    {#- the input itself has U+FFFD, and no other bytes -#}
    {%- set guarded = feeds[reading.garbled] -%}
    {%- do plan.ranges.update({reading.garbled: plan.ranges[reading.garbled].with_texts([])}) -%}
    {{ return(hw_read_changes(sql | replace(guarded, hw_feed_of_range(reading.garbled, plan.ranges[reading.garbled])), plan)) }}
{% endmacro %}


{#- Returns whether an input has text that is not UTF-8, at the first or the last version of a range. -#}
{% macro hw_has_other_bytes(source, range) %}
    {{ return(run_query(hw_other_bytes_sql(source, range)).rows | length > 0) }}
{% endmacro %}


{% macro hw_other_bytes_sql(source, range) -%}
    select 1 from (
        {%- for version in [range.after, range.to] %}
        select {{ hw_quoted(range.texts) | join(', ') }} from {{ source }} version as of {{ version }}
        {{- ' union all' if not loop.last }}
        {%- endfor %}
    ) where not (
        {%- for name in range.texts %}
        coalesce(is_valid_utf8(cast({{ hw_quote(name) }} as string)), true){{ ' and' if not loop.last }}
        {%- endfor %}
    ) limit 1
{%- endmacro %}


{#- Returns the changes of an input's table after the commit `applied` up to its pinned version, and any gap of its change feed: a `Range`.
    Without a gap, `columns` of the input are those of its pinned version. -#}
{% macro hw_range(spec, applied) %}
    {#- there may be commits after the pinned version: ask for some more than the range -#}
    {%- set commits = adapter.history_of(spec.source, spec.version - applied.version + 20, applied.version, spec.version).rows
        if applied.version <= spec.version else [] -%}
    {%- set range = adapter.range_of(spec.source, applied, spec.version, commits) -%}
    {%- if range.needs_history -%}
        {%- set range = adapter.range_of(spec.source, applied, spec.version, hw_describe_history(spec.source, 100000)) -%}
    {%- endif -%}
    {%- if range.needs_columns and (spec.kind != 'lookup' or range.doubt) -%}
        {%- set range = range.with_columns(hw_columns_around(spec.source, range.replaced, [range.after, range.to])) -%}
    {%- endif -%}
    {%- if range.gap -%}{{ return(range) }}{%- endif -%}
    {%- do spec.update({'columns': hw_columns_at(spec.source, spec.version)}) -%}
    {%- if spec.kind == 'lookup' -%}{{ return(range) }}{%- endif -%}
    {%- if range.uncounted -%}
        {%- set feed = hw_feed_sql(spec.source, range.after, range.to) -%}
        {%- set reading = adapter.read_changes('select count(*) from ' ~ feed, {spec.source: feed}) -%}
        {%- set range = range.with_gap(reading.gap) if reading.gap else range.with_rows(reading.rows[0][0] | int) -%}
    {%- endif -%}
    {%- if range.gap or range.rows == 0 -%}
        {{ return(range) }}
    {%- endif -%}
    {%- set texts = [] -%}
    {%- for name in adapter.texts_of(spec.columns) if not spec.read or name | lower in spec.read -%}
        {%- do texts.append(name) -%}
    {%- endfor -%}
    {%- set range = range.with_texts(texts) -%}
    {%- set sums = spec.kind == 'images' or (spec.kind == 'changes' and range.needs_grouping) -%}
    {{ return(range.with_grouping(adapter.grouping_of(spec.columns)) if sums else range) }}
{% endmacro %}
