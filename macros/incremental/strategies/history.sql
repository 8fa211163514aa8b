{#- SCD type 2: scripts/headwaters/runs/strategies/history.py. `few`: Spark broadcasts the keys, because the changes are
    few. -#}
{% macro hw_new_periods_sql(target, images, keys, few, beside) -%}
    {%- set key_columns = hw_quoted(keys) | join(', ') -%}
with _images as (
{{ images }}
),
_touched as (select distinct {{ key_columns }} from _images),
_target_periods as (select {{ '/*+ broadcast(_touched) */ ' if few }}_target.* from {{ target }} as _target
left semi join _touched on {{ hw_equals(keys, '_target', '_touched') }}),
_periods as (select *, lead(valid_from) over (partition by {{ key_columns }} order by valid_from) as _next from _target_periods),
_new as (select struct(*) as _row, * from ({{ hw_periods_sql(hw_known_and_new_images_sql(), key_columns) }})),
_present as (select struct(*) as _row, * from _target_periods)
{{ hw_classified_sql('_new', '_present', keys + ['valid_from'], beside) }}
{%- endmacro %}


{#- Selects the images of the target's periods, and the new images. -#}
{% macro hw_known_and_new_images_sql() -%}
select * except (valid_from, valid_to, is_current, _next), named_struct('at', valid_from, 'version', cast(-1 as bigint),
'deleted', false, 'until', if(_next <=> valid_to, null, valid_to)) as _image from _periods
union all
select * except (_image), _image from _images
{%- endmacro %}


{#- Converts images to periods of validity. `sql` gives the model's columns and `_image`. The result has the model's
    columns, valid_from, valid_to (exclusive, null while the row is true) and is_current. If two images have one time,
    that of the later commit wins; within a commit, the greater row. A deletion ends the images of earlier commits, even
    later ones in time; it does not affect those of later commits. -#}
{% macro hw_periods_sql(sql, keys) -%}
    {%- set later = 'order by _image.version range between 1 following and unbounded following' -%}
select * except (_image, _superseded, _row, _cut, _until), _image.at as valid_from, _until as valid_to, _until is null as is_current from (
select *, least(lead(_image.at) over (partition by {{ keys }} order by _image.at, _image.version, _row), _cut) as _until from (
select *, least(_image.until, min(if(_image.deleted, _image.at, null)) over (partition by {{ keys }} {{ later }})) as _cut from (
select *, _image.deleted and bool_or(not _image.deleted) over (partition by {{ keys }}, _image.version) as _superseded,
struct(* except (_image)) as _row from (
{{ sql }}
)
) where not _superseded
) where not _image.deleted and (_cut is null or _cut > _image.at)
) where _until is null or _until > _image.at
{%- endmacro %}


{#- Selects the images of an input as rows with `_image`, a struct of `at`, `version` (of the commit) and `deleted`.
    `at` is the time when the image became true: the column `at` of images(), or else the commit's time. Images that
    cancel out within one commit are dropped, because a rebuild of the input deletes and inserts every row. A pre-image
    only matters if the key changed: `hw_periods_sql` drops those with a post-image. Images of the target's periods have
    version -1, and `until` if a deletion ended them. -#}
{% macro hw_images_sql(column, feed, grouping) -%}
    {%- set happened = 'coalesce(' ~ hw_quote(column) ~ ', _commit_timestamp)' if column else '_commit_timestamp' -%}
(select * except (_commit_version, _commit_timestamp, _hw_net), named_struct(
'at', cast(if(_hw_net < 0, _commit_timestamp, {{ happened }}) as timestamp), 'version', _commit_version,
'deleted', _hw_net < 0, 'until', cast(null as timestamp)) as _image
from ({{ hw_summed_images_sql(feed, grouping, ['_commit_version', '_commit_timestamp'], []) }}) where _hw_net <> 0)
{%- endmacro %}


{#- Selects the rows of a version as inserts of its commit, and the feed after it. -#}
{% macro hw_snapshot_and_feed_sql(snapshot, columns, commit, feed) -%}
(select {{ columns | join(', ') }}, 'insert' as _change_type, cast({{ commit.version }} as bigint) as _commit_version,
timestamp_millis({{ commit.at }}) as _commit_timestamp from {{ snapshot }}
{%- if feed %} union all select * from {{ feed }}{% endif %})
{%- endmacro %}
