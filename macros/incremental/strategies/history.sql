{#- SCD type 2: every change image of the input is a period of validity. The periods of the affected keys are recomputed
    from the images that the target's periods stand for and the new ones. A period that no other follows at once ended
    with a deletion. -#}
{% macro hw_history__full_refresh_sql(sql, settings, columns) %}
    {%- set spec = hw_followed_input(hw_inputs_of(sql)) -%}
    {{ return(hw_periods_sql(hw_with_inputs(sql, {spec.text: hw_all_images(spec)}), settings)) }}
{% endmacro %}


{% macro hw_history__change_set_sql(target, sql, plan, settings, columns, bounds) -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set key_columns = hw_quoted(keys) | join(', ') -%}
    {%- set spec = hw_followed_input(plan.inputs) -%}
with _images as (
{{ hw_with_inputs(sql, {spec.text: hw_history__changed_rows_sql(spec, plan.ranges[spec.source])}) }}
),
_touched as (select distinct {{ key_columns }} from _images),
_target_periods as (select {{ '/*+ broadcast(_touched) */ ' if adapter.is_broadcast(plan.rows) }}_target.* from {{ target }} as _target
left semi join _touched on {{ hw_equals(keys, '_target', '_touched') }}),
_periods as (select *, lead(valid_from) over (partition by {{ key_columns }} order by valid_from) as _next from _target_periods),
_new as (select struct(*) as _row, * from ({{ hw_periods_sql(hw_known_and_new_images_sql(), settings) }})),
_present as (select struct(*) as _row, * from _target_periods)
{{ hw_classified_sql('_new', '_present', keys + ['valid_from'], settings) }}
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
{% macro hw_periods_sql(sql, settings) -%}
    {%- set keys = hw_quoted(settings.get('unique_key')) | join(', ') -%}
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


{% macro hw_history__changed_rows_sql(spec, range) %}
    {{ return(hw_images_sql(spec, hw_feed_of_range(spec.source, range), range.grouping)) }}
{% endmacro %}


{#- The images of an input as rows with `_image`, a struct of `at` (when the image became true: the column `at` of images(), else the
    commit's time), `version` (of the commit) and `deleted`. Images that cancel out within one commit say nothing: a rebuild of the input
    deletes and inserts every row. A pre-image says nothing that its post-image does not, unless the key moved: `hw_periods_sql`
    drops those that have one. Images that stand for periods of the target have version -1, and `until` where a deletion ended them. -#}
{% macro hw_images_sql(spec, feed, grouping) -%}
    {%- set happened = 'coalesce(' ~ hw_quote(spec.column) ~ ', _commit_timestamp)' if spec.column else '_commit_timestamp' -%}
(select * except (_commit_version, _commit_timestamp, _hw_net), named_struct(
'at', cast(if(_hw_net < 0, _commit_timestamp, {{ happened }}) as timestamp), 'version', _commit_version,
'deleted', _hw_net < 0, 'until', cast(null as timestamp)) as _image
from ({{ hw_summed_images_sql(feed, grouping, ['_commit_version', '_commit_timestamp'], []) }}) where _hw_net <> 0)
{%- endmacro %}


{#- Every image from the first version whose changes are still retained: that version's rows, and the feed after it. A
    column that was added later is null in those rows. -#}
{% macro hw_all_images(spec) %}
    {%- set first = hw_first_known_commit(spec) -%}
    {%- set oldest = spec.source ~ ' version as of ' ~ first.version -%}
    {%- set newest = spec.source ~ ' version as of ' ~ spec.version -%}
    {%- set known = hw_column_names(adapter.get_column_schema_from_query('select * from ' ~ oldest)) -%}
    {%- set given = adapter.get_column_schema_from_query('select * from ' ~ newest) -%}
    {%- set columns = [] -%}
    {%- for column in given -%}
        {%- set name = hw_quote(column.name) -%}
        {%- set is_known = column.name | lower in known -%}
        {%- do columns.append(name if is_known else '(select any_value(' ~ name ~ ') from ' ~ newest ~ ' where false) as ' ~ name) -%}
    {%- endfor -%}
    {%- set feed = hw_feed_sql(spec.source, first.version, spec.version) if first.version != spec.version else none -%}
    {{ return(hw_images_sql(spec, hw_snapshot_and_feed_sql(oldest, columns, first, feed), adapter.grouping_of(given))) }}
{% endmacro %}


{#- The rows of a version as inserts of its commit, and the feed after it. -#}
{% macro hw_snapshot_and_feed_sql(snapshot, columns, commit, feed) -%}
(select {{ columns | join(', ') }}, 'insert' as _change_type, cast({{ commit.version }} as bigint) as _commit_version,
timestamp_millis({{ commit.at }}) as _commit_timestamp from {{ snapshot }}
{%- if feed %} union all select * from {{ feed }}{% endif %})
{%- endmacro %}


{#- The oldest commit from which on the feed can tell everything: what the commits say, and what reading the feed shows.
    Runs statements. -#}
{% macro hw_first_known_commit(spec) %}
    {%- set commits = hw_describe_history(spec.source, 100000) -%}
    {%- set further = [spec.version] if commits | selectattr('has_milliseconds') | list else [] -%}
    {%- set columns = hw_columns_around(spec.source, adapter.replacements(commits, spec.version), further) -%}
    {%- set said = adapter.first_known(spec.source, spec.version, commits, columns) -%}
    {%- set known = commits | selectattr('version', 'ge', said.version) | selectattr('version', 'le', spec.version) | list -%}
    {%- set first = adapter.readable_from(hw_literal(spec.source), known | map(attribute='version') | sort, spec.version) -%}
    {{ return(known | selectattr('version', 'equalto', first) | first) }}
{% endmacro %}


{#- The commit that the table begins with. Runs statements. -#}
{% macro hw_history__state_properties(inputs) %}
    {%- set first = hw_first_known_commit(hw_followed_input(inputs)) -%}
    {{ return({'headwaters.begins': tojson({'version': first.version, 'at': first.at})}) }}
{% endmacro %}


{#- Refuses, under `on_gap: fail`, a rebuild that nobody asked for where the feed has lost the commit that the table begins with: the table
    would lose its oldest periods. -#}
{% macro hw_history__before_replace(target, plan, settings) %}
    {%- set begins = fromjson(adapter.as_mapping(plan.detail['properties']).get('headwaters.begins', 'null')) if plan.detail else none -%}
    {%- if begins and hw_on_gap(settings) == 'fail' -%}
        {%- set spec = hw_followed_input(plan.inputs) -%}
        {%- set first = hw_first_known_commit(spec) -%}
        {%- if not first.is_same(begins) -%}
            {{ hw_raise('LOST_PERIODS',
                target ~ ' would be rebuilt (' ~ plan.reason ~ ') and lose periods: it begins with version ' ~ begins.version ~ ' of '
                    ~ spec.source
                ~ ', whose feed can be read from version ' ~ first.version ~ ' on. ' ~ hw_left_as_it_is(settings, target)) }}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_history__check(where, sql, inputs, settings) %}
    {%- if not modules.re.search('(?i)\\b_image\\b', hw_without_inputs(sql, inputs)) -%}
        {{ hw_raise('NO_IMAGE', where ~ ' does not select `_image`: the column of images() that says when each image became '
            ~ 'true has to be among those '
            ~ 'that the model selects.') }}
    {%- endif -%}
{% endmacro %}


{% macro hw_history__facts_before_staging(target, sql, plan, settings) %}
    {%- set held = hw_type_of('select * except (valid_from, valid_to, is_current) from ' ~ target) -%}
    {%- set given = hw_type_of('select * except (_image) from (\n' ~ sql ~ '\n)') -%}
    {%- set types = run_query('select ' ~ held ~ ' as held, ' ~ given ~ ' as given').rows[0] -%}
    {{ return({'bounds': [], 'same_columns': types['held'] == types['given'], 'gap': hw_store_feed(target, plan).gap}) }}
{% endmacro %}
