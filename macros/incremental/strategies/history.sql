{#- SCD type 2: scripts/headwaters/runs/strategies/history.py. `few`: so few changes that their keys are sent everywhere. -#}
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


{#- The images that the target's periods stand for, and those that are new. -#}
{% macro hw_known_and_new_images_sql() -%}
select * except (valid_from, valid_to, is_current, _next), named_struct('at', valid_from, 'version', cast(-1 as bigint),
'deleted', false, 'until', if(_next <=> valid_to, null, valid_to)) as _image from _periods
union all
select * except (_image), _image from _images
{%- endmacro %}


{#- From images to periods of validity. `sql` gives the model's columns and `_image`; the result has the model's columns,
    valid_from, valid_to (exclusive, null while it is true) and is_current. Of two images at one moment the later commit's is true,
    and of one commit's the greater row. A deletion ends what earlier commits said, whatever their moments; what a later commit brings, it
    does not know. -#}
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


{#- The images of an input as rows with `_image`, a struct of `at` (when the image became true: the column `at` of images(), else the
    commit's time), `version` (of the commit) and `deleted`. Images that cancel out within one commit say nothing: a rebuild of the input
    deletes and inserts every row. A pre-image says nothing that its post-image does not, unless the key moved: `hw_periods_sql`
    drops those that have one. Images that stand for periods of the target have version -1, and `until` where a deletion ended them. -#}
{% macro hw_images_sql(column, feed, grouping) -%}
    {%- set happened = 'coalesce(' ~ hw_quote(column) ~ ', _commit_timestamp)' if column else '_commit_timestamp' -%}
(select * except (_commit_version, _commit_timestamp, _hw_net), named_struct(
'at', cast(if(_hw_net < 0, _commit_timestamp, {{ happened }}) as timestamp), 'version', _commit_version,
'deleted', _hw_net < 0, 'until', cast(null as timestamp)) as _image
from ({{ hw_summed_images_sql(feed, grouping, ['_commit_version', '_commit_timestamp'], []) }}) where _hw_net <> 0)
{%- endmacro %}


{#- The rows of a version as inserts of its commit, and the feed after it. -#}
{% macro hw_snapshot_and_feed_sql(snapshot, columns, commit, feed) -%}
(select {{ columns | join(', ') }}, 'insert' as _change_type, cast({{ commit.version }} as bigint) as _commit_version,
timestamp_millis({{ commit.at }}) as _commit_timestamp from {{ snapshot }}
{%- if feed %} union all select * from {{ feed }}{% endif %})
{%- endmacro %}
