{#- The change data feed of a table after version `after` up to version `to`: its rows with _change_type, _commit_version and
    _commit_timestamp. -#}
{% macro _feed_sql(source, after, to) %}
    {{- return('table_changes(' ~ string_literal(source) ~ ', ' ~ (after + 1) ~ ', ' ~ to ~ ')') -}}
{% endmacro %}


{#- The change data feed of a range, as a relation. Reading it fails at U+FFFD in a text, which is what Delta's feed has in place of bytes that
    are not UTF-8: see `_read_changes`. -#}
{% macro _feed_of_range(source, range) %}
    {%- set guard = _text_guard(range.texts) -%}
    {%- set feed = _feed_sql(source, range.after, range.to) -%}
    {{ return('(select * from ' ~ feed ~ ' where ' ~ guard ~ ')' if guard else feed) }}
{% endmacro %}


{% macro _text_guard(texts) %}
    {%- set conditions = [] -%}
    {%- for name in texts -%}{%- do conditions.append('contains(cast(' ~ _quote(name) ~ " as string), '\ufffd')") -%}{%- endfor -%}
    {{ return('if(' ~ conditions | join(' or ') ~ ", raise_error('HW_NOT_UTF8'), true)" if conditions else '') }}
{% endmacro %}


{#- The rows that appeared in an input (`sign` 1) or disappeared from it (-1) between two of its versions, as a subquery with the
    input's own columns: a Z-set, every image of the change feed weighed +1 (insert, after image) or -1 (delete, before image) and
    summed over equal rows (Budiu and others, DBSP, VLDB 2023). The sum is exact because the target holds exactly the first version:
    see recovery.py. Where one commit changed rows there is nothing to sum, and where all only inserted nothing disappeared. -#}
{% macro _net_rows(range, source, sign) %}
    {%- set feed = _feed_of_range(source, range) -%}
    {%- set columns = '* except (_change_type, _commit_version, _commit_timestamp)' -%}
    {%- if range.inserts_only -%}
        {{ return('(select ' ~ columns ~ ' from ' ~ feed ~ ')') }}
    {%- elif range.commits == 1 -%}
        {%- set images = "('insert', 'update_postimage')" if sign > 0 else "('delete', 'update_preimage')" -%}
        {{ return('(select ' ~ columns ~ ' from ' ~ feed ~ ' where _change_type in ' ~ images ~ ')') }}
    {%- endif -%}
    {{ return(
        '(select * except (_net, _copy) from (' ~ _summed_images_sql(feed, range.grouping, [], ['_commit_version', '_commit_timestamp']) ~ ')'
        ~ ' lateral view explode(array_repeat(0, cast(greatest(' ~ ('' if sign > 0 else '-') ~ '_net, 0) as int))) _copies as _copy)'
    ) }}
{% endmacro %}


{#- Equal rows of a feed with the sum of their images' weights, `_net`: with the columns `kept` of the feed's own, without `dropped`. -#}
{% macro _summed_images_sql(feed, grouping, kept, dropped) %}
    {%- set net = 'sum(' ~ _image_weight() ~ ') as _net from ' ~ feed ~ ' group by ' -%}
    {%- if not grouping -%}
        {{ return('select * except (' ~ (['_change_type'] + dropped) | join(', ') ~ '), ' ~ net ~ 'all') }}
    {%- endif -%}
    {{ return('select ' ~ (grouping.columns | list + kept + [net]) | join(', ') ~ (grouping.keys | list + kept) | join(', ')) }}
{% endmacro %}


{#- How the rows of an input are grouped: a `Grouping` of scripts/headwaters/incremental/grouping.py, or none where Spark can compare all columns. -#}
{% macro _grouping(source, version) %}
    {{ return(adapter.grouping_of(adapter.get_column_schema_from_query('select * from ' ~ source ~ ' version as of ' ~ version))) }}
{% endmacro %}


{#- Runs a statement over the change feeds of a plan. Returns `rows`, and `gap`: why a feed cannot be read any more, or none. -#}
{% macro _read_changes(sql, plan) %}
    {%- set feeds = {} -%}
    {%- for source, range in plan.ranges.items() if range.rows > 0 -%}
        {%- do feeds.update({source: _feed_of_range(source, range)}) -%}
    {%- endfor -%}
    {%- set reading = adapter.read_changes(sql, feeds) -%}
    {%- if not reading.garbled or _has_other_bytes(reading.garbled, plan.ranges[reading.garbled]) -%}
        {{ return(reading) }}
    {%- endif -%}
    {#- the input has U+FFFD itself, and no other bytes -#}
    {%- set guarded = feeds[reading.garbled] -%}
    {%- do plan.ranges.update({reading.garbled: plan.ranges[reading.garbled].with_texts([])}) -%}
    {{ return(_read_changes(sql | replace(guarded, _feed_of_range(reading.garbled, plan.ranges[reading.garbled])), plan)) }}
{% endmacro %}


{#- Whether an input has text that is not UTF-8, at the first or the last version of a range. -#}
{% macro _has_other_bytes(source, range) %}
    {%- set valid = [] -%}
    {%- for name in range.texts -%}{%- do valid.append('coalesce(is_valid_utf8(cast(' ~ _quote(name) ~ ' as string)), true)') -%}{%- endfor -%}
    {%- set rows = [] -%}
    {%- for version in [range.after, range.to] -%}{%- do rows.append('select ' ~ _quoted(range.texts) | join(', ') ~ ' from ' ~ source ~ ' version as of ' ~ version) -%}{%- endfor -%}
    {{ return(run_query('select 1 from (' ~ rows | join(' union all ') ~ ') where not (' ~ valid | join(' and ') ~ ') limit 1').rows | length > 0) }}
{% endmacro %}


{#- Every image of an input's change feed with its weight: what signed sums add up. -#}
{% macro _weighed_rows(range, source) %}
    {{ return(
        '(select * except (_change_type, _commit_version, _commit_timestamp), ' ~ _image_weight() ~ ' as _weight from '
        ~ _feed_of_range(source, range) ~ ')'
    ) }}
{% endmacro %}


{% macro _image_weight() %}
    {{- return("case when _change_type in ('insert', 'update_postimage') then 1 else -1 end") -}}
{% endmacro %}


{#- Every image of the range as a plain row: what may have been touched, whatever the target already holds. -#}
{% macro _all_rows(range, source) %}
    {{ return('(select * except (_change_type, _commit_version, _commit_timestamp) from ' ~ _feed_of_range(source, range) ~ ')') }}
{% endmacro %}
