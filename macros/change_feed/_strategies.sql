{#- For each strategy: the SQL of a full refresh, and the SQL that stages what an incremental run changes in the target, as the
    target's columns and `_operation` (`insert`, `update` or `delete`), one row a key. None of these macros runs anything. -#}

{% macro _full_refresh_sql(strategy, sql, columns=none) %}
    {%- if strategy == 'change_feed' and config.get('latest_by') -%}
        {{ return(_latest_rows_sql(sql)) }}
    {%- elif strategy == 'signed_sum' -%}
        {{ return(_signed_result_sql(sql, columns)) }}
    {%- elif strategy == 'history' -%}
        {{ return(_periods_sql(sql)) }}
    {%- endif -%}
    {{ return(sql) }}
{% endmacro %}


{#- The greatest row of each key by `latest_by`; rows equal in those columns are told apart by the rest of the row, so that the
    result does not depend on the order of reading. -#}
{% macro _latest_rows_sql(sql) %}
    {{ return(
        'select inline(array(_latest._row)) from (select max(struct(' ~ _quoted(config.get('latest_by')) | join(', ')
        ~ ', struct(*) as _row)) as _latest from (\n' ~ sql ~ '\n) group by ' ~ _quoted(config.get('unique_key')) | join(', ') ~ ')'
    ) }}
{% endmacro %}


{% macro _quoted(columns, alias=none) %}
    {%- set quoted = [] -%}
    {%- for column in _as_list(columns) -%}
        {%- do quoted.append((alias ~ '.' if alias else '') ~ adapter.quote(column)) -%}
    {%- endfor -%}
    {{ return(quoted) }}
{% endmacro %}


{% macro _stage_sql(strategy, target, sql, plan, columns=none) %}
    {%- if strategy == 'change_feed' -%}
        {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'changes') | list)[0] -%}
        {%- set range = plan.ranges[spec.source] -%}
        {%- set appeared = _with_inputs(sql, {spec.text: _net_rows(range, spec.source, 1)}) -%}
        {%- set disappeared = _with_inputs(sql, {spec.text: _net_rows(range, spec.source, -1)}) -%}
        {%- if not config.get('latest_by') -%}
            {{ return(_difference_sql(appeared, disappeared)) }}
        {%- elif range.inserts_only -%}
            {{ return(_newer_rows_sql(target, _latest_rows_sql(appeared))) }}
        {%- endif -%}
        {%- set keys = _quoted(config.get('unique_key')) | join(', ') -%}
        {%- set touched = 'select distinct ' ~ keys ~ ' from (select ' ~ keys ~ ' from (' ~ appeared ~ ') union all select ' ~ keys ~ ' from (' ~ disappeared ~ '))' -%}
        {{ return(_recomputed_sql(target, touched, _as_list(config.get('unique_key')), _latest_rows_sql(
            'select _all.* from (' ~ sql ~ ') as _all left semi join _touched on ' ~ equals(_as_list(config.get('unique_key')), '_all', '_touched')
        ))) }}
    {%- elif strategy == 'affected_keys' -%}
        {{ return(_affected_sql(target, sql, plan)) }}
    {%- elif strategy == 'signed_sum' -%}
        {{ return(_signed_sql(target, sql, plan, columns)) }}
    {%- endif -%}
{% endmacro %}


{#- Rows that appeared and rows that disappeared, by key: what only appeared is inserted, what only disappeared is deleted, what did
    both is updated unless it is the same row. -#}
{% macro _difference_sql(appeared, disappeared) %}
    {%- set keys = _as_list(config.get('unique_key')) -%}
    {{ return(
        'with _appeared as (select struct(*) as _row, ' ~ _quoted(keys) | join(', ') ~ ' from (\n' ~ appeared ~ '\n)),\n'
        ~ '_disappeared as (select struct(*) as _row, ' ~ _quoted(keys) | join(', ') ~ ' from (\n' ~ disappeared ~ '\n))\n'
        ~ _classified_sql('_appeared', '_disappeared', keys)
    ) }}
{% endmacro %}


{#- `new` and `old` each have `_row` and the key columns; every key's change from old to new, without the rows that stay the same. -#}
{% macro _classified_sql(new, old, keys, keep='true') %}
    {{ return(
        'select inline(array(coalesce(_new._row, _old._row))), '
        ~ "case when _old._row is null then 'insert' when _new._row is null then 'delete' else 'update' end as _operation\n"
        ~ 'from ' ~ new ~ ' as _new full outer join ' ~ old ~ ' as _old on ' ~ equals(keys, '_new', '_old') ~ '\n'
        ~ 'where not (_new._row <=> _old._row) and ' ~ keep
    ) }}
{% endmacro %}


{#- The winners of a batch against the rows that the target has: only a greater row replaces one. -#}
{% macro _newer_rows_sql(target, winners) %}
    {%- set keys = _as_list(config.get('unique_key')) -%}
    {%- set order = _as_list(config.get('latest_by')) -%}
    {{ return(
        'with _winners as (select struct(*) as _row, * from (\n' ~ winners ~ '\n)),\n'
        ~ '_present as (select struct(*) as _row, * from ' ~ target ~ ' as _target where {bounds})\n'
        ~ "select inline(array(_new._row)), if(_old._row is null, 'insert', 'update') as _operation\n"
        ~ 'from _winners as _new left join _present as _old on ' ~ equals(keys, '_new', '_old') ~ '\n'
        ~ 'where _old._row is null or struct(' ~ _quoted(order, '_new') | join(', ') ~ ', _new._row) > struct(' ~ _quoted(order, '_old') | join(', ') ~ ', _old._row)'
    ) }}
{% endmacro %}


{#- Everything of the touched keys computed anew, against the rows that the target has of them. `recomputed` may use `_touched`. -#}
{% macro _recomputed_sql(target, touched, key, recomputed) %}
    {%- set unique_key = _as_list(config.get('unique_key')) -%}
    {{ return(
        'with _touched as (\n' ~ touched ~ '\n),\n'
        ~ '_recomputed as (select struct(*) as _row, ' ~ _quoted(unique_key) | join(', ') ~ ' from (\n' ~ recomputed ~ '\n)),\n'
        ~ '_present as (select struct(_target.*) as _row, ' ~ _quoted(unique_key, '_target') | join(', ') ~ ' from ' ~ target
        ~ ' as _target left semi join _touched on ' ~ equals(key, '_target', '_touched') ~ ' where {bounds})\n'
        ~ _classified_sql('_recomputed', '_present', unique_key)
    ) }}
{% endmacro %}


{% macro _affected_sql(target, sql, plan) %}
    {%- set affected = plan.inputs | selectattr('kind', 'equalto', 'affected') | list -%}
    {%- set key = affected[0].key.keys() | list | sort -%}
    {%- set touched = [] -%}
    {%- set restricted = {} -%}
    {%- for spec in affected -%}
        {%- set columns = [] -%}
        {%- for name in key -%}
            {%- do columns.append(('_via.' if spec.via else '') ~ adapter.quote(spec.key[name]) ~ ' as ' ~ adapter.quote(name)) -%}
        {%- endfor -%}
        {%- set conditions = [] -%}
        {%- if spec.via -%}
            {%- set via = (affected | selectattr('source', 'equalto', spec.via) | list)[0] -%}
            {%- set mapping = via.source ~ ' version as of ' ~ via.version -%}
        {%- endif -%}
        {%- if spec.source in plan.ranges and plan.ranges[spec.source].rows > 0 -%}
            {%- set range = plan.ranges[spec.source] -%}
            {%- set feed = 'table_changes(' ~ string_literal(spec.source) ~ ', ' ~ (range.from + 1) ~ ', ' ~ range.to ~ ')' -%}
            {%- if spec.via -%}
                {%- do touched.append('select ' ~ columns | join(', ') ~ ' from ' ~ mapping ~ ' as _via left semi join ' ~ feed ~ ' as _feed on ' ~ equals(spec.on, '_via', '_feed')) -%}
            {%- else -%}
                {%- do touched.append('select ' ~ columns | join(', ') ~ ' from ' ~ feed) -%}
            {%- endif -%}
        {%- endif -%}
        {%- for name in key -%}
            {%- do conditions.append(('_via.' if spec.via else '_input.') ~ adapter.quote(spec.key[name]) ~ ' <=> _touched.' ~ adapter.quote(name)) -%}
        {%- endfor -%}
        {%- set snapshot = _input_sql(spec) -%}
        {%- if spec.via -%}
            {%- do restricted.update({spec.text: '(select _input.* from ' ~ snapshot ~ ' as _input left semi join (select _via.* from ' ~ mapping
                ~ ' as _via left semi join _touched on ' ~ conditions | join(' and ') ~ ') as _via on ' ~ equals(spec.on, '_input', '_via') ~ ')'}) -%}
        {%- else -%}
            {%- do restricted.update({spec.text: '(select _input.* from ' ~ snapshot ~ ' as _input left semi join _touched on ' ~ conditions | join(' and ') ~ ')'}) -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(_recomputed_sql(target, 'select distinct * from (' ~ touched | join(' union all ') ~ ')', key, _with_inputs(sql, restricted))) }}
{% endmacro %}


{#- Sums by key from signed rows. A measure over no value at all is 0, which is what a sum of differences can tell; `derived` columns
    are computed from the sums. -#}
{% macro _signed_columns(columns) %}
    {%- set keys = _as_list(config.get('unique_key')) -%}
    {%- set derived = config.get('derived', {}) -%}
    {%- set measures = [] -%}
    {%- for column in columns if column.name not in keys and column.name not in derived -%}
        {%- if column.dtype in ['double', 'float'] -%}
            {{ exceptions.raise_compiler_error(
                "signed_sum adds differences to what is there, and floating-point sums depend on the order of adding: "
                ~ column.name ~ " is a " ~ column.dtype ~ ". Cast what is summed to a decimal or an integer."
            ) }}
        {%- endif -%}
        {%- do measures.append(column) -%}
    {%- endfor -%}
    {{ return(measures) }}
{% endmacro %}


{% macro _signed_result_sql(sql, columns) %}
    {%- set expressions = _quoted(config.get('unique_key')) -%}
    {%- for measure in _signed_columns(columns) -%}
        {%- do expressions.append('coalesce(' ~ adapter.quote(measure.name) ~ ', 0) as ' ~ adapter.quote(measure.name)) -%}
    {%- endfor -%}
    {{ return(_with_derived_sql('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n)')) }}
{% endmacro %}


{% macro _with_derived_sql(sql, extra=[]) %}
    {%- set expressions = ['*'] + extra -%}
    {%- for name, expression in config.get('derived', {}).items() -%}
        {%- do expressions.append(expression ~ ' as ' ~ adapter.quote(name)) -%}
    {%- endfor -%}
    {{ return('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n)') }}
{% endmacro %}


{#- The measure that counts rows: a group is gone when it is 0. -#}
{% macro _weight_column(sql) %}
    {%- set found = modules.re.search('(?i)sum\\s*\\(\\s*(?:\\w+\\.)?_weight\\s*\\)\\s+as\\s+`?(\\w+)', sql) -%}
    {%- if not found -%}
        {{ exceptions.raise_compiler_error("A signed_sum model needs `sum(_weight) as <name>` among its columns: the count of rows tells when a group is gone") }}
    {%- endif -%}
    {{ return(found.group(1)) }}
{% endmacro %}


{% macro _signed_sql(target, sql, plan, columns) %}
    {%- set keys = _as_list(config.get('unique_key')) -%}
    {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'signed') | list)[0] -%}
    {%- set delta = _with_inputs(sql, {spec.text: _weighed_rows(plan.ranges[spec.source], spec.source)}) -%}
    {%- set sums = _quoted(keys, '_delta') -%}
    {%- set moved = [] -%}
    {%- for measure in _signed_columns(columns) -%}
        {%- set name = adapter.quote(measure.name) -%}
        {%- do sums.append('cast(coalesce(_target.' ~ name ~ ', 0) + coalesce(_delta.' ~ name ~ ', 0) as ' ~ measure.dtype ~ ') as ' ~ name) -%}
        {%- do moved.append('coalesce(_delta.' ~ name ~ ', 0) <> 0') -%}
    {%- endfor -%}
    {{ return(_with_derived_sql(
        'select ' ~ sums | join(', ') ~ ", if(_target._here is null, 'insert', if(coalesce(_target." ~ adapter.quote(_weight_column(sql))
        ~ ', 0) + coalesce(_delta.' ~ adapter.quote(_weight_column(sql)) ~ ", 0) = 0, 'delete', 'update')) as _operation\n"
        ~ 'from (\n' ~ delta ~ '\n) as _delta left join (select *, true as _here from ' ~ target ~ ') as _target on ' ~ equals(keys, '_delta', '_target') ~ '\n'
        ~ 'where ' ~ moved | join(' or ')
    )) }}
{% endmacro %}
