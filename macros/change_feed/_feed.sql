{#- The change data feed of a table after version `after` up to version `to`: its rows with _change_type, _commit_version and
    _commit_timestamp. -#}
{% macro _feed_sql(source, after, to) %}
    {{- return('table_changes(' ~ string_literal(source) ~ ', ' ~ (after + 1) ~ ', ' ~ to ~ ')') -}}
{% endmacro %}


{#- The rows that appeared in an input (`sign` 1) or disappeared from it (-1) between two of its versions, as a subquery with the
    input's own columns: a Z-set, every image of the change feed weighed +1 (insert, after image) or -1 (delete, before image) and
    summed over equal rows (Budiu and others, DBSP, VLDB 2023). The sum is exact because the target holds exactly the first version:
    see recovery.py. Where one commit changed rows there is nothing to sum, and where all only inserted nothing disappeared. -#}
{% macro _net_rows(range, source, sign) %}
    {%- set feed = _feed_sql(source, range.after, range.to) -%}
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
        {%- do feeds.update({source: _feed_sql(source, range.after, range.to)}) -%}
    {%- endfor -%}
    {{ return(adapter.read_changes(sql, feeds)) }}
{% endmacro %}


{#- Every image of an input's change feed with its weight: what signed sums add up. -#}
{% macro _weighed_rows(range, source) %}
    {{ return(
        '(select * except (_change_type, _commit_version, _commit_timestamp), ' ~ _image_weight() ~ ' as _weight from '
        ~ _feed_sql(source, range.after, range.to) ~ ')'
    ) }}
{% endmacro %}


{% macro _image_weight() %}
    {{- return("case when _change_type in ('insert', 'update_postimage') then 1 else -1 end") -}}
{% endmacro %}


{#- Every image of the range as a plain row: what may have been touched, whatever the target already holds. -#}
{% macro _all_rows(range, source) %}
    {{ return('(select * except (_change_type, _commit_version, _commit_timestamp) from ' ~ _feed_sql(source, range.after, range.to) ~ ')') }}
{% endmacro %}
