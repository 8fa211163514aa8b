{#- The sums of the changed rows, added to the table's. A group without rows is deleted, unless the SQL gives it over no rows as well: without
    `group by` there is one group, always. -#}
{% macro hw_signed_change_set_sql(target, sql, plan, settings, columns) %}
    {%- set keys = hw_spelled(settings.get('unique_key'), columns) -%}
    {%- set spec = (plan.inputs | selectattr('kind', 'equalto', 'signed') | list)[0] -%}
    {%- set delta = hw_with_inputs(sql, {spec.text: hw_weighed_rows(plan.ranges[spec.source], spec.source)}) -%}
    {%- set sums = hw_quoted(keys, '_delta') -%}
    {%- set moved = [] -%}
    {%- for measure in hw_signed_columns(columns, settings) -%}
        {%- set name = hw_quote(measure.name) -%}
        {%- do sums.append('cast(coalesce(_target.' ~ name ~ ', 0) + coalesce(_delta.' ~ name ~ ', 0) as ' ~ measure.dtype ~ ') as ' ~ name) -%}
        {%- do moved.append('coalesce(_delta.' ~ name ~ ', 0) <> 0') -%}
    {%- endfor -%}
    {%- set weight = hw_quote(hw_weight_column(sql)) -%}
    {%- set delta = hw_one_sum_a_key_sql(delta, keys, settings, columns) -%}
    {{ return(hw_with_derived_sql(
        'select ' ~ sums | join(', ') ~ hw_before_sql(settings, '_target') ~ ", if(_target._here is null, 'insert', if(coalesce(_target." ~ weight
        ~ ', 0) + coalesce(_delta.' ~ weight ~ ", 0) = 0 and _lasting._stays is null, 'delete', 'update')) as _operation\n"
        ~ 'from (\n' ~ delta ~ '\n) as _delta left join (select *, true as _here from ' ~ target ~ ') as _target on ' ~ hw_equals(keys, '_delta', '_target') ~ '\n'
        ~ 'left join ' ~ hw_lasting_groups_sql(sql, plan.inputs, keys) ~ ' as _lasting on ' ~ hw_equals(keys, '_delta', '_lasting') ~ '\n'
        ~ 'where ' ~ moved | join(' or '),
        settings
    )) }}
{% endmacro %}


{#- Sums by key from signed rows. A measure over no value at all is 0, which is what a sum of differences can tell; `derived` columns
    are computed from the sums. -#}
{% macro hw_signed_columns(columns, settings) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set others = (keys + settings.get('derived', {}) | list) | map('lower') | list -%}
    {%- set measures = [] -%}
    {%- for column in columns if column.name | lower not in others -%}
        {%- if column.dtype in ['double', 'float'] -%}
            {{ exceptions.raise_compiler_error(
                "signed_sum adds differences to what is there, and floating-point sums depend on the order of adding: "
                ~ column.name ~ " is a " ~ column.dtype ~ ". Cast what is summed, before it is summed, to a decimal or an integer."
            ) }}
        {%- elif column.dtype.split('(')[0] not in ['tinyint', 'smallint', 'int', 'bigint', 'decimal'] -%}
            {{ exceptions.raise_compiler_error(
                "signed_sum keeps sums and counts: " ~ column.name ~ " is a " ~ column.dtype ~ ". Put it into unique_key, or into derived where it is computed from the sums."
            ) }}
        {%- endif -%}
        {%- do measures.append(column) -%}
    {%- endfor -%}
    {{ return(measures) }}
{% endmacro %}


{% macro hw_signed_result_sql(sql, settings, columns) %}
    {%- set expressions = hw_quoted(hw_spelled(settings.get('unique_key'), columns)) -%}
    {%- for measure in hw_signed_columns(columns, settings) -%}
        {%- do expressions.append('coalesce(' ~ hw_quote(measure.name) ~ ', 0) as ' ~ hw_quote(measure.name)) -%}
    {%- endfor -%}
    {{ return(hw_with_derived_sql('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n)', settings)) }}
{% endmacro %}


{% macro hw_with_derived_sql(sql, settings) %}
    {%- set expressions = ['*'] -%}
    {%- for name, expression in settings.get('derived', {}).items() -%}
        {%- do expressions.append(expression ~ ' as ' ~ hw_quote(name)) -%}
    {%- endfor -%}
    {{ return('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n)') }}
{% endmacro %}


{#- The measure that counts rows: a group is gone when it is 0. -#}
{% macro hw_weight_column(sql) %}
    {%- set found = adapter.weight_column(sql) -%}
    {%- if not found -%}
        {{ exceptions.raise_compiler_error("A signed_sum model needs `sum(_weight) as <name>` among its columns: the count of rows tells when a group is gone") }}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}


{#- Sums of two groups that are one key once stored, the empty text's and NULL's, as one: they change one row. -#}
{% macro hw_one_sum_a_key_sql(sql, keys, settings, columns) %}
    {%- if not hw_partitions_among(keys, settings) -%}{{ return(sql) }}{%- endif -%}
    {%- set expressions = hw_quoted(keys) -%}
    {%- for measure in hw_signed_columns(columns, settings) -%}
        {%- do expressions.append('sum(' ~ hw_quote(measure.name) ~ ') as ' ~ hw_quote(measure.name)) -%}
    {%- endfor -%}
    {{ return('select ' ~ expressions | join(', ') ~ ' from (\n' ~ sql ~ '\n) group by ' ~ hw_quoted(keys) | join(', ')) }}
{% endmacro %}


{#- The keys of the groups that a model gives over inputs without rows, as a subquery with the column `_stays`. Spark sees that it reads nothing. -#}
{% macro hw_lasting_groups_sql(sql, inputs, keys) %}
    {{ return('(select ' ~ hw_quoted(keys) | join(', ') ~ ', true as _stays from (\n' ~ hw_with_inputs(sql, hw_without_rows(inputs)) ~ '\n))') }}
{% endmacro %}


{#- One row: for each measure whether it is no sum of weighed rows, and `_empty`, whether there are groups without a row, other than those that
    are there always. -#}
{% macro hw_weighed_differences_sql(sql, inputs, spec, settings, columns, sample) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set sides = [] -%}
    {%- for weight in [1, -3] -%}
        {%- set side = hw_with_inputs(sql, {spec.text: '(select * except (_in_half), ' ~ weight ~ ' as _weight from ' ~ sample ~ ')'}) -%}
        {%- do sides.append('(select *, true as _here from (\n' ~ hw_one_sum_a_key_sql(side, keys, settings, columns) ~ '\n))') -%}
    {%- endfor -%}
    {%- set expressions = [] -%}
    {%- for measure in hw_signed_columns(columns, settings) -%}
        {%- set name = hw_quote(measure.name) -%}
        {%- do expressions.append('count_if(coalesce(_thrice.' ~ name ~ ', 0) <> -3 * coalesce(_once.' ~ name ~ ', 0)) as ' ~ name) -%}
    {%- endfor -%}
    {%- set lasting = hw_lasting_groups_sql(sql, inputs, keys) -%}
    {%- do expressions.append('count_if(_once._here and _lasting._stays is null and coalesce(_once.' ~ hw_quote(hw_weight_column(sql)) ~ ', 0) = 0) + (select count(*) from '
        ~ lasting ~ ' as _lasting left anti join ' ~ sides[0] ~ ' as _once on ' ~ hw_equals(keys, '_lasting', '_once') ~ ') as _empty') -%}
    {{ return('select ' ~ expressions | join(', ') ~ '\nfrom ' ~ sides[0] ~ ' as _once full outer join ' ~ sides[1] ~ ' as _thrice on ' ~ hw_equals(keys, '_once', '_thrice')
        ~ '\nleft join ' ~ lasting ~ ' as _lasting on ' ~ hw_equals(keys, '_once', '_lasting')) }}
{% endmacro %}
