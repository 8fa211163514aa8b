{#- Selects the inserted rows of an input (`sign` 1) or its deleted rows (-1) between two of its versions, as a subquery
    with the input's columns. It is a Z-set: every image of the change feed is weighted +1 (insert, post-image) or -1
    (delete, pre-image), and summed over equal rows (Budiu and others, DBSP, VLDB 2023). The sum is exact because the
    target has applied exactly the first version: see recovery.py. If one commit changed rows, sums are unnecessary; if
    all commits only inserted rows, none were deleted. -#}
{% macro hw_net_rows(range, source, sign) -%}
    {%- set feed = hw_feed_of_range(source, range) -%}
    {%- if range.inserts_only -%}
(select * except (_change_type, _commit_version, _commit_timestamp) from {{ feed }})
    {%- elif range.commits == 1 -%}
(select * except (_change_type, _commit_version, _commit_timestamp) from {{ feed }} where _change_type in
{%- if sign > 0 %} ('insert', 'update_postimage'){% else %} ('delete', 'update_preimage'){% endif %})
    {%- else -%}
(select * except (_hw_net, _hw_copy) from ({{ hw_summed_images_sql(feed, range.grouping, [], ['_commit_version', '_commit_timestamp']) }})
lateral view explode(array_repeat(0, cast(greatest({{ '-' if sign < 0 }}_hw_net, 0) as int))) _copies as _hw_copy)
    {%- endif -%}
{%- endmacro %}


{#- Selects equal rows of a feed with the sum of their images' weights, `_hw_net`. It adds the columns `kept` of the
    feed, and omits `dropped`. -#}
{% macro hw_summed_images_sql(feed, grouping, kept, dropped) -%}
    {%- if grouping -%}
select {{ (grouping.columns | list + kept) | join(', ') }}, sum({{ hw_image_weight() }}) as _hw_net from {{ feed }}
group by {{ (grouping.keys | list + kept) | join(', ') }}
    {%- else -%}
select * except ({{ (['_change_type'] + dropped) | join(', ') }}), sum({{ hw_image_weight() }}) as _hw_net from {{ feed }} group by all
    {%- endif -%}
{%- endmacro %}


{#- Selects every image of an input's change feed with its weight, for signed sums. -#}
{% macro hw_weighed_rows(range, source) -%}
(select * except (_change_type, _commit_version, _commit_timestamp), {{ hw_image_weight() }} as _weight
from {{ hw_feed_of_range(source, range) }})
{%- endmacro %}


{% macro hw_image_weight() %}
    {{- return("case when _change_type in ('insert', 'update_postimage') then 1 else -1 end") -}}
{% endmacro %}


{#- Selects every image of the range as a plain row: the possibly affected rows, for any state of the target. -#}
{% macro hw_all_rows(range, source) -%}
(select * except (_change_type, _commit_version, _commit_timestamp) from {{ hw_feed_of_range(source, range) }})
{%- endmacro %}
