{#- The touched keys' periods computed anew from the images that the target's periods stand for and the new ones. A period that no other
    follows at once ended with a deletion. -#}
{% macro hw_history_change_set_sql(target, sql, plan, settings) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'images') | list)[0] -%}
    {%- set range = plan.ranges[spec.source] -%}
    {%- set images = hw_with_inputs(sql, {spec.text: hw_images_sql(spec, hw_feed_of_range(spec.source, range), hw_grouping(spec.source, spec.version))}) -%}
    {%- set columns = '* except (valid_from, valid_to, is_current, _next)' -%}
    {%- set known = 'select ' ~ columns ~ ", named_struct('at', valid_from, 'version', cast(-1 as bigint), 'deleted', false, 'until', if(_next <=> valid_to, null, valid_to)) as _image from _periods" -%}
    {{ return(
        'with _images as (\n' ~ images ~ '\n),\n'
        ~ '_touched as (select distinct ' ~ hw_quoted(keys) | join(', ') ~ ' from _images),\n'
        ~ '_target_periods as (select _target.* from ' ~ target ~ ' as _target left semi join _touched on ' ~ hw_equals(keys, '_target', '_touched') ~ '),\n'
        ~ '_periods as (select *, lead(valid_from) over (partition by ' ~ hw_quoted(keys) | join(', ') ~ ' order by valid_from) as _next from _target_periods),\n'
        ~ '_new as (select struct(*) as _row, * from (' ~ hw_periods_sql(known ~ ' union all select * except (_image), _image from _images', settings) ~ ')),\n'
        ~ '_present as (select struct(*) as _row, * from _target_periods)\n'
        ~ hw_classified_sql('_new', '_present', keys + ['valid_from'], settings)
    ) }}
{% endmacro %}


{#- The images of an input as rows with `_image`, a struct of `at` (when the image became true: the column `at` of images(), else the
    commit's time), `version` (of the commit) and `deleted`. Images that cancel out within one commit say nothing: a rebuild of the input
    shows every row as gone and come. A before image says nothing that its after image does not, unless the key moved: `hw_periods_sql`
    drops those that have one. Images that stand for periods of the target have version -1, and `until` where a deletion ended them. -#}
{% macro hw_images_sql(spec, feed, grouping) %}
    {%- set happened = 'coalesce(' ~ hw_quote(spec.column) ~ ', _commit_timestamp)' if spec.column else '_commit_timestamp' -%}
    {{ return(
        '(select * except (_commit_version, _commit_timestamp, _net), named_struct('
        ~ "'at', cast(if(_net < 0, _commit_timestamp, " ~ happened ~ ") as timestamp), 'version', _commit_version, 'deleted', _net < 0, 'until', cast(null as timestamp)) as _image"
        ~ ' from (' ~ hw_summed_images_sql(feed, grouping, ['_commit_version', '_commit_timestamp'], []) ~ ') where _net <> 0)'
    ) }}
{% endmacro %}


{#- Every image from the first version whose changes are still known: that version's rows, and the feed after it. A column that came later is
    null in those rows. -#}
{% macro hw_all_images(spec) %}
    {%- set first = hw_first_known_commit(spec) -%}
    {%- set newest = spec.source ~ ' version as of ' ~ spec.version -%}
    {%- set known = hw_column_names(adapter.get_column_schema_from_query('select * from ' ~ spec.source ~ ' version as of ' ~ first.version)) -%}
    {%- set columns = [] -%}
    {%- set given = adapter.get_column_schema_from_query('select * from ' ~ newest) -%}
    {%- set grouping = adapter.grouping_of(given) -%}
    {%- for column in given -%}
        {%- set name = hw_quote(column.name) -%}
        {%- do columns.append(name if column.name | lower in known else '(select any_value(' ~ name ~ ') from ' ~ newest ~ ' where false) as ' ~ name) -%}
    {%- endfor -%}
    {%- set snapshot = '(select ' ~ columns | join(', ') ~ ", 'insert' as _change_type, cast(" ~ first.version ~ ' as bigint) as _commit_version, timestamp_millis(' ~ first.at
        ~ ') as _commit_timestamp from ' ~ spec.source ~ ' version as of ' ~ first.version -%}
    {%- if first.version == spec.version -%}
        {{ return(hw_images_sql(spec, snapshot ~ ')', grouping)) }}
    {%- endif -%}
    {{ return(hw_images_sql(spec, snapshot ~ ' union all select * from ' ~ hw_feed_sql(spec.source, first.version, spec.version) ~ ')', grouping)) }}
{% endmacro %}


{#- Refuses, under `on_gap: fail`, a rebuild that nobody asked for where the feed has lost the commit that the table begins with: the table
    would lose its oldest periods. -#}
{% macro hw_refuse_lost_periods(target, plan, settings) %}
    {%- set begins = fromjson(hw_as_mapping(plan.detail['properties']).get('headwaters.begins', 'null')) if plan.detail else none -%}
    {%- if begins and hw_on_gap('history', settings) == 'fail' -%}
        {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'images') | list)[0] -%}
        {%- set first = hw_first_known_commit(spec) -%}
        {%- if not hw_is_same_commit(first, begins) -%}
            {{ exceptions.raise_compiler_error(
                target ~ ' would be built anew (' ~ plan.reason ~ ') and lose periods: it begins with version ' ~ begins.version ~ ' of ' ~ spec.source
                ~ ', whose feed can be read from version ' ~ first.version ~ ' on. ' ~ hw_left_as_it_is('history', target)
            ) }}
        {%- endif -%}
    {%- endif -%}
{% endmacro %}


{#- The oldest commit from which on the feed can tell everything: what the commits say, and what reading the feed shows. -#}
{% macro hw_first_known_commit(spec) %}
    {%- set commits = hw_describe_history(spec.source, 100000) -%}
    {%- set further = [spec.version] if commits | selectattr('has_milliseconds') | list else [] -%}
    {%- set columns = hw_columns_around(spec.source, adapter.replacements(commits, spec.version), further) -%}
    {%- set said = adapter.first_known(spec.source, spec.version, commits, columns) -%}
    {%- set known = commits | selectattr('version', 'ge', said.version) | selectattr('version', 'le', spec.version) | list -%}
    {%- set first = adapter.readable_from(hw_literal(spec.source), known | map(attribute='version') | sort, spec.version) -%}
    {{ return(known | selectattr('version', 'equalto', first) | first) }}
{% endmacro %}


{#- From images to periods of validity. `sql` gives the model's columns and `_image`; the result has the model's columns,
    valid_from, valid_to (exclusive, null while it is true) and is_current. Of two images at one moment the later commit's is true,
    and of one commit's the greater row. A deletion ends what earlier commits said, whatever their moments; what a later commit brings, it
    does not know. -#}
{% macro hw_periods_sql(sql, settings) %}
    {%- set keys = hw_quoted(settings.get('unique_key')) | join(', ') -%}
    {{ return(
        'select * except (_image, _superseded, _row, _cut, _until), _image.at as valid_from, _until as valid_to, _until is null as is_current from (\n'
        ~ 'select *, least(lead(_image.at) over (partition by ' ~ keys ~ ' order by _image.at, _image.version, _row), _cut) as _until from (\n'
        ~ 'select *, least(_image.until, min(if(_image.deleted, _image.at, null)) over (partition by ' ~ keys
        ~ ' order by _image.version range between 1 following and unbounded following)) as _cut from (\n'
        ~ 'select *, _image.deleted and bool_or(not _image.deleted) over (partition by ' ~ keys ~ ', _image.version) as _superseded, struct(* except (_image)) as _row from (\n' ~ sql ~ '\n)\n'
        ~ ') where not _superseded\n) where not _image.deleted and (_cut is null or _cut > _image.at)\n) where _until is null or _until > _image.at'
    ) }}
{% endmacro %}
