{#- From a staged change set, which `look` describes, to the target, in one commit. Returns the counts; `refused` says why
    only a replacement would be right. `check_target`: the change set was not compared with the target, so make sure that
    keys which are new to the input are new to the target too. -#}
{% macro hw_apply_staged(target, stage, keys, settings, look, check_target) %}
    {%- if look.target_type != look.stage_type -%}
        {{ return(dict(look, refused='the columns changed')) }}
    {%- endif -%}
    {%- set present = namespace(rows=look.updated + look.deleted) -%}
    {%- if look.rows > look.distinct -%}
        {%- do hw_refuse_repeated_keys(target, stage, keys, hw_repeated_keys_sql(keys, stage)) -%}
    {%- elif look.inserted and check_target -%}
        {%- if look.has_keys -%}
            {%- set present.rows = run_query('select count(*) from ' ~ target ~ ' where ' ~ look.has_keys).rows[0][0] | int -%}
        {%- endif -%}
        {%- if not look.has_keys or present.rows != look.updated + look.deleted -%}
            {%- do hw_refuse_repeated_keys(target, stage, keys, hw_inserted_and_present_sql(target, stage, keys, look.within_keys)) -%}
        {%- endif -%}
    {%- endif -%}
    {%- if look.rows > 0 and look.rows == look.inserted -%}
        {%- do run_query(hw_insert_sql(target, stage, settings)) -%}
    {%- elif look.rows > 0 and look.has_keys -%}
        {%- do run_query(hw_insert_sql(target, stage, settings, look.has_keys ~ look.lies_there)) -%}
        {%- if check_target and not look.inserted -%}
            {%- set present.rows = hw_rows_replaced(target, look.has_keys ~ look.lies_there) -%}
        {%- endif -%}
    {%- elif look.rows > 0 -%}
        {%- set present.rows = (run_query(hw_merge_sql(target, stage, keys, look)).rows[0]['num_affected_rows'] | int) - look.inserted -%}
    {%- endif -%}
    {%- if present.rows != look.updated + look.deleted -%}
        {{ return(dict(look, refused='the table did not have all the rows that changed')) }}
    {%- endif -%}
    {{ return(look) }}
{% endmacro %}


{#- Keys that are inserted and that the target has. -#}
{% macro hw_inserted_and_present_sql(target, stage, keys, within) -%}
select {{ hw_quoted(keys, 't') | join(', ') }} from {{ target }} as t
left semi join {{ stage }} as s on s._operation = 'insert' and {{ hw_equals(keys, 't', 's') }}
where {{ within }}
{%- endmacro %}


{#- The staged rows as new rows; in place of those of the target that `replaced_where` describes, if it is given. A merge reads all columns
    of every file in which a changed row may lie; what a condition describes is found in the key's column, and marked as deleted. -#}
{% macro hw_insert_sql(target, stage, settings, replaced_where=none) -%}
insert into {{ target }} with ('userMetadata' = {{ hw_literal(adapter.signature(hw_run_id())) }})
{%- if replaced_where %}
replace where {{ replaced_where }}
{%- endif %}
select * except ({{ (['_operation'] + hw_before_names(settings)) | join(', ') }}) from {{ stage }}
{%- if replaced_where %} where _operation <> 'delete'{% endif %}
{%- endmacro %}


{#- How many rows the replacement by a condition deleted that this run just made, after its note. Delta does not say it
    where nothing was inserted and only whole files went, and makes no commit where there was nothing to do. -#}
{% macro hw_rows_replaced(relation, condition) %}
    {%- set made = namespace(commit=none, noted=false) -%}
    {%- for commit in hw_describe_history(relation, 10) if not made.noted -%}
        {%- set made.noted = commit.operation == 'SET TBLPROPERTIES' -%}
        {%- if commit.operation == 'WRITE' and commit.parameters.get('predicate') -%}{%- set made.commit = commit -%}{%- endif -%}
    {%- endfor -%}
    {%- if made.commit is none -%}
        {{ return(0) }}
    {%- elif 'numDeletedRows' in made.commit.metrics or made.commit.metrics.get('numRemovedFiles', 0) | int == 0 -%}
        {{ return(made.commit.metrics.get('numDeletedRows', 0) | int) }}
    {%- endif -%}
    {%- set before = relation ~ ' version as of ' ~ (made.commit.version - 1) -%}
    {{ return(run_query('select count(*) from ' ~ before ~ ' where ' ~ condition).rows[0][0] | int) }}
{% endmacro %}


{#- The keys are compared with `=` where the change set has no null in them: a null-safe comparison costs a fifth more. MERGE
    takes no options, so its condition carries the run's name, as a comparison that is always true and that Spark cannot
    know to be. -#}
{% macro hw_merge_sql(target, stage, keys, look) -%}
merge into {{ target }} as t using {{ stage }} as s
on {% for key in keys %}t.{{ hw_quote(key) }} {{ '<=>' if look.nulls[loop.index0] else '=' }} s.{{ hw_quote(key) }} and {% endfor -%}
{{ look.within }} and s._operation <> {{ hw_literal(adapter.signature(hw_run_id())) }}
{%- if look.deleted %}
when matched and s._operation = 'delete' then delete
{%- endif %}
{%- if look.updated %}
when matched then update set *
{%- endif %}
{%- if look.inserted %}
when not matched and s._operation = 'insert' then insert *
{%- endif %}
{%- endmacro %}
