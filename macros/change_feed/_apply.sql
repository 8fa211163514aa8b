{#- From a staged change to the target: one look at the stage, one commit. Returns the counts. -#}
{% macro _apply_stage(target, stage, plan) %}
    {%- set keys = _as_list(config.get('unique_key')) -%}
    {%- set look = _look_at(target, stage, keys) -%}
    {%- if look.target_type and look.target_type != look.stage_type -%}
        {{ return(dict(look, columns_differ=true)) }}
    {%- endif -%}
    {%- if look.rows > look.distinct -%}
        {%- set twice = run_query('select ' ~ _quoted(keys) | join(', ') ~ ' from ' ~ stage ~ ' group by all having count(*) > 1 limit 3').rows -%}
        {%- do run_query('drop table if exists ' ~ stage) -%}
        {{ exceptions.raise_compiler_error(
            "unique_key " ~ keys ~ " of " ~ target ~ " is not unique: " ~ (look.rows - look.distinct) ~ " rows too many among those that changed, for example "
            ~ twice | map('list') | join(', ') ~ ". The table was left as it is. Make the model's SQL give one row a key, or add the columns that tell the rows apart to unique_key."
        ) }}
    {%- endif -%}
    {%- if look.rows > 0 -%}
        {%- do run_query(_insert_sql(target, stage) if look.rows == look.inserted else _merge_sql(target, stage, keys, look)) -%}
    {%- endif -%}
    {{ return(look) }}
{% endmacro %}


{#- Everything that the rest of the run needs to know of a stage: counts, whether keys repeat or are null, the range of each key as
    SQL literals, and whether its columns are still the target's. -#}
{% macro _look_at(target, stage, keys) %}
    {%- set expressions = [
        'count(*) as staged', "count_if(_operation = 'insert') as inserted", "count_if(_operation = 'update') as updated",
        "count_if(_operation = 'delete') as deleted", 'count(distinct ' ~ 'struct(' ~ _quoted(keys) | join(', ') ~ ')) as distinct_keys',
        'typeof(any_value(struct(* except (_operation)))) as stage_type', 'typeof((select struct(*) from ' ~ target ~ ' limit 1)) as target_type',
    ] -%}
    {%- for key in keys -%}
        {%- set name = adapter.quote(key) -%}
        {%- do expressions.append('count_if(' ~ name ~ ' is null) as nulls_' ~ loop.index) -%}
        {%- do expressions.append('cast(min(' ~ name ~ ') as string) as least_' ~ loop.index) -%}
        {%- do expressions.append('cast(max(' ~ name ~ ') as string) as greatest_' ~ loop.index) -%}
        {%- do expressions.append('typeof(any_value(' ~ name ~ ')) as type_' ~ loop.index) -%}
    {%- endfor -%}
    {%- set row = run_query('select ' ~ expressions | join(', ') ~ ' from ' ~ stage).rows[0] -%}
    {%- set bounds = [] -%}
    {%- set nulls = [] -%}
    {%- for key in keys -%}
        {%- do nulls.append(row['nulls_' ~ loop.index] | int > 0) -%}
        {%- if row['nulls_' ~ loop.index] | int == 0 and row['staged'] | int > 0 and row['type_' ~ loop.index] not in ['binary', 'boolean', 'double', 'float'] -%}
            {%- set type = row['type_' ~ loop.index] -%}
            {%- do bounds.append(
                't.' ~ adapter.quote(key) ~ ' between cast(' ~ string_literal(row['least_' ~ loop.index]) ~ ' as ' ~ type ~ ') and cast('
                ~ string_literal(row['greatest_' ~ loop.index]) ~ ' as ' ~ type ~ ')'
            ) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return({
        'rows': row['staged'] | int, 'inserted': row['inserted'] | int, 'updated': row['updated'] | int, 'deleted': row['deleted'] | int,
        'distinct': row['distinct_keys'] | int, 'nulls': nulls, 'bounds': bounds,
        'stage_type': row['stage_type'], 'target_type': row['target_type'],
    }) }}
{% endmacro %}


{% macro _insert_sql(target, stage) %}
    {{ return('insert into ' ~ target ~ ' select * except (_operation) from ' ~ stage) }}
{% endmacro %}


{#- The keys are compared with `=` where the stage holds no null in them: a null-safe comparison costs a fifth more. -#}
{% macro _merge_sql(target, stage, keys, look) %}
    {%- set conditions = [] -%}
    {%- for key in keys -%}
        {%- do conditions.append('t.' ~ adapter.quote(key) ~ (' <=> ' if look.nulls[loop.index0] else ' = ') ~ 's.' ~ adapter.quote(key)) -%}
    {%- endfor -%}
    {%- set clauses = [] -%}
    {%- if look.deleted -%}{%- do clauses.append("when matched and s._operation = 'delete' then delete") -%}{%- endif -%}
    {%- if look.updated or look.inserted -%}{%- do clauses.append('when matched then update set *') -%}{%- endif -%}
    {%- if look.inserted -%}{%- do clauses.append("when not matched and s._operation <> 'delete' then insert *") -%}{%- endif -%}
    {{ return(
        'merge into ' ~ target ~ ' as t using ' ~ stage ~ ' as s\non ' ~ (conditions + look.bounds) | join(' and ') ~ '\n' ~ clauses | join('\n')
    ) }}
{% endmacro %}
