{#- From a staged change set, which `look` describes, to the target, in one commit. Returns the counts; `why_merge`; `refused` says why
    only a replacement would be right. `engine`: what this run runs on. `check_target`: the change set was not compared with the target,
    so make sure that keys which are new to the input are new to the target too. -#}
{% macro hw_apply_staged(target, stage, keys, settings, look, engine, check_target) %}
    {%- if look.target_type != look.stage_type -%}
        {{ return(dict(look, refused='the columns changed')) }}
    {%- elif look.rows > look.distinct -%}
        {%- do hw_refuse_repeated_keys(target, stage, keys, hw_repeated_keys_sql(keys, stage)) -%}
    {%- elif look.rows == 0 -%}
        {{ return(look) }}
    {%- endif -%}
    {%- if look.inserted and check_target -%}
        {%- set there = run_query(hw_keys_present_sql(target, stage, keys, look.within_keys)).rows[0] -%}
        {%- if there['inserted'] | int -%}
            {%- do hw_refuse_repeated_keys(target, stage, keys, hw_inserted_and_present_sql(target, stage, keys, look.within_keys)) -%}
        {%- elif there['present'] | int != look.updated + look.deleted -%}
            {{ return(dict(look, refused=hw_rows_missing())) }}
        {%- endif -%}
    {%- endif -%}
    {%- set followers = adapter.followers(model.unique_id, graph) | reject('in', hw_served(settings)) | list -%}
    {%- set write = adapter.way_of_writing(look, settings.get('apply_by'), engine, followers | length) -%}
    {%- set present = look.updated + look.deleted -%}
    {%- if write.way == 'insert' -%}
        {%- do run_query(hw_insert_sql(target, stage, settings)) -%}
    {%- elif write.way == 'replace' -%}
        {%- do run_query(hw_replace_keys_sql(target, stage, keys, settings, look)) -%}
        {%- if check_target and not look.inserted -%}{%- set present = hw_rows_replaced(target, look) -%}{%- endif -%}
    {%- else -%}
        {%- set present = (run_query(hw_merge_sql(target, stage, keys, look)).rows[0]['num_affected_rows'] | int) - look.inserted -%}
    {%- endif -%}
    {%- if present != look.updated + look.deleted -%}
        {{ return(dict(look, refused=hw_rows_missing())) }}
    {%- endif -%}
    {{ return(dict(look, why_merge=write.reason)) }}
{% endmacro %}


{% macro hw_rows_missing() %}
    {{ return('the table did not have all the rows that changed') }}
{% endmacro %}


{#- How many of the staged keys the target has, and how many of those that are inserted. -#}
{% macro hw_keys_present_sql(target, stage, keys, within) -%}
select count(*) as present, count_if(_staged._operation = 'insert') as inserted from {{ target }} as _target
inner join {{ stage }} as _staged on {{ hw_equals(keys, '_target', '_staged') }}
where {{ within }}
{%- endmacro %}


{% macro hw_inserted_and_present_sql(target, stage, keys, within) -%}
select {{ hw_quoted(keys, '_target') | join(', ') }} from {{ target }} as _target
left semi join {{ stage }} as _staged on _staged._operation = 'insert' and {{ hw_equals(keys, '_target', '_staged') }}
where {{ within }}
{%- endmacro %}


{% macro hw_insert_sql(target, stage, settings) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(adapter.signature(hw_run_id())) }})
select * except ({{ hw_beside_names(settings) | join(', ') }}) from {{ stage }}
{%- endmacro %}


{#- The staged rows in place of those of the target that have their keys, and of those that are deleted. It finds them by the columns of
    its condition alone. `insert overwrite` would do the same, but overwrites all where the session's partitionOverwriteMode is dynamic. -#}
{% macro hw_replace_keys_sql(target, stage, keys, settings, look) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(adapter.signature(hw_run_id())) }}, 'targetAlias' = '_target',
'replaceOn' = {{ hw_literal(hw_is_replaced(stage, keys, look)) }})
replace where true
select * except ({{ hw_beside_names(settings) | join(', ') }}) from {{ stage }} as _staged where _operation <> 'delete'
{%- endmacro %}


{#- Whether a row of the target goes. `replaceOn` compares it with the rows that take a place, and deleted keys are none of those: where
    there are some, its key is looked up in the whole change set. IN finds no null, but a struct that has one. -#}
{% macro hw_is_replaced(stage, keys, look) %}
    {%- set here, there = hw_quoted(keys, '_target') | join(', '), hw_quoted(keys) | join(', ') -%}
    {%- if not look.deleted -%}
        {%- set is_changed = hw_same_key(keys, look.nulls) -%}
    {%- elif true in look.nulls -%}
        {%- set is_changed = '(struct(' ~ here ~ '), true) in (select struct(' ~ there ~ '), true from ' ~ stage ~ ')' -%}
    {%- else -%}
        {%- set is_changed = '(' ~ here ~ ') in (select ' ~ there ~ ' from ' ~ stage ~ ')' -%}
    {%- endif -%}
    {{ return(is_changed ~ ' and ' ~ look.within) }}
{% endmacro %}


{#- The keys are compared with `=` where the change set has no null in them: a null-safe comparison costs a fifth more. -#}
{% macro hw_same_key(keys, nulls) %}
    {%- set pairs = [] -%}
    {%- for key in hw_quoted(keys) -%}
        {%- do pairs.append('_target.' ~ key ~ (' <=> ' if nulls[loop.index0] else ' = ') ~ '_staged.' ~ key) -%}
    {%- endfor -%}
    {{ return(pairs | join(' and ')) }}
{% endmacro %}


{#- How many rows of the target the replacement by keys removed that this run just made. Delta may be told to keep no metrics. -#}
{% macro hw_rows_replaced(target, look) %}
    {%- for commit in hw_describe_history(target, 10) if commit.user_metadata == adapter.signature(hw_run_id()) -%}
        {%- if 'numDeletedRows' in commit.metrics -%}
            {{ return(commit.metrics.numDeletedRows | int) }}
        {%- endif -%}
        {%- set rows = [] -%}
        {%- for version in [commit.version - 1, commit.version] -%}
            {%- do rows.append(run_query('select count(*) from ' ~ target ~ ' version as of ' ~ version).rows[0][0] | int) -%}
        {%- endfor -%}
        {{ return(rows[0] - rows[1] + look.inserted + look.updated) }}
    {%- endfor -%}
    {{ return(0) }}
{% endmacro %}


{#- MERGE takes no options, so its condition carries the run's name, as a comparison that is always true and that Spark cannot
    know to be. -#}
{% macro hw_merge_sql(target, stage, keys, look) -%}
merge into {{ target }} as _target using {{ stage }} as _staged
on {{ hw_same_key(keys, look.nulls) }} and {{ look.within }} and _staged._operation <> {{ hw_literal(adapter.signature(hw_run_id())) }}
{%- if look.deleted %}
when matched and _staged._operation = 'delete' then delete
{%- endif %}
{%- if look.updated %}
when matched then update set *
{%- endif %}
{%- if look.inserted %}
when not matched and _staged._operation = 'insert' then insert *
{%- endif %}
{%- endmacro %}
