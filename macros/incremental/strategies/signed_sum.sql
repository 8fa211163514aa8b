{#- Sums and counts by key: the sums of the changed rows, each weighed by whether it was inserted or deleted, are added to
    the table's. A measure over no value at all is 0, which is what a sum of differences can tell; `derived` columns are
    computed from the sums. -#}
{% macro hw_signed_sum__full_refresh_sql(sql, settings, columns) %}
    {{ return(hw_with_derived_sql(hw_sums_sql(sql, settings, columns), settings)) }}
{% endmacro %}


{% macro hw_sums_sql(sql, settings, columns) -%}
select {{ hw_quoted(hw_spelled(settings.get('unique_key'), columns)) | join(', ') }}
    {%- for measure in hw_signed_columns(columns, settings) -%}
        {%- set name = hw_quote(measure.name) -%}
, coalesce({{ name }}, {{ hw_zero_sql(measure.dtype) }}) as {{ name }}
    {%- endfor %} from (
{{ sql }}
)
{%- endmacro %}


{#- A group without rows is deleted, unless the SQL gives it over no rows as well: without `group by` there is one group, always. -#}
{% macro hw_signed_sum__change_set_sql(target, sql, plan, settings, columns, bounds) %}
    {%- set keys = hw_spelled(settings.get('unique_key'), columns) -%}
    {%- set delta = hw_one_sum_a_key_sql(plan.facts.sums or hw_sums_of_changes_sql(sql, plan), keys, settings, columns) -%}
    {%- set sums, moved = hw_quoted(keys, '_delta'), [] -%}
    {%- for measure in hw_signed_columns(columns, settings) -%}
        {%- set name = hw_quote(measure.name) -%}
        {%- set sum = hw_amount_sql(measure, '_target') ~ ' + ' ~ hw_amount_sql(measure, '_delta') -%}
        {%- do sums.append('cast(' ~ sum ~ ' as ' ~ measure.dtype ~ ') as ' ~ name) -%}
        {%- do moved.append('coalesce(_delta.' ~ name ~ ', 0) <> 0') -%}
    {%- endfor -%}
    {%- set weight = hw_quote(hw_weight_column(sql)) -%}
    {%- set rows = 'coalesce(_target.' ~ weight ~ ', 0) + coalesce(_delta.' ~ weight ~ ', 0)' -%}
    {%- set lasting = hw_lasting_groups_sql(sql, plan.inputs, keys) -%}
    {%- set held = hw_rows_of_few_keys_sql(target, '(\n' ~ delta ~ '\n)', keys) if adapter.is_broadcast(plan.rows) else target -%}
    {{ return(hw_with_derived_sql(hw_added_sums_sql(held, keys, delta, sums, moved, rows, lasting, settings), settings)) }}
{% endmacro %}


{#- A sum as what is added to another. Of two decimals of 38 digits Spark would leave out the last one after the point; the first one is
    free in every sum that is proven (amounts.py). -#}
{% macro hw_amount_sql(measure, alias) %}
    {%- set column = alias ~ '.' ~ hw_quote(measure.name) -%}
    {%- set amount = 'coalesce(' ~ column ~ ', ' ~ hw_zero_sql(measure.dtype) ~ ')' -%}
    {%- set of_fewer_digits = measure.dtype | replace('decimal(38,', 'decimal(37,') -%}
    {{ return(amount if of_fewer_digits == measure.dtype else 'cast(' ~ amount ~ ' as ' ~ of_fewer_digits ~ ')') }}
{% endmacro %}


{#- Of the type of a sum: beside many digits after the point, the whole number would take the last ones away. -#}
{% macro hw_zero_sql(type) %}
    {{ return('cast(0 as ' ~ type ~ ')' if type.startswith('decimal') else '0') }}
{% endmacro %}


{% macro hw_sums_of_changes_sql(sql, plan) %}
    {%- set spec = hw_followed_input(plan.inputs) -%}
    {{ return(hw_with_inputs(sql, {spec.text: hw_weighed_rows(plan.ranges[spec.source], spec.source)})) }}
{% endmacro %}


{#- The sums of more than a few changes are stored: they are read as what is added and as the groups that it is added to. Runs a
    statement then. -#}
{% macro hw_signed_sum__facts_before_staging(target, sql, plan, settings) %}
    {%- set known = dict(hw_default__facts_before_staging(target, sql, plan, settings), of_rows=true) -%}
    {%- if adapter.is_worth_storing(plan.rows) and adapter.is_broadcast(plan.rows) -%}
        {%- set stored = hw_store_part(target, 'sums', hw_sums_of_changes_sql(sql, plan), plan) -%}
        {%- do known.update({'gap': stored.gap, 'sums': 'select * from ' ~ stored.relation}) -%}
    {%- endif -%}
    {{ return(known) }}
{% endmacro %}


{#- `held`: the table, or its rows of these groups. -#}
{% macro hw_added_sums_sql(held, keys, delta, sums, moved, rows, lasting, settings) -%}
    {%- set operation = "if(_target._here is null, 'insert', if(" ~ rows ~ " = 0 and _lasting._stays is null, 'delete', 'update'))" -%}
select {{ sums | join(', ') }}{{ hw_beside_sql(settings, '_target', 'struct(_target.* except (_here))') }}, {{ operation }} as _operation
from (
{{ delta }}
) as _delta left join (select *, true as _here from {{ held }}) as _target on {{ hw_equals(keys, '_delta', '_target') }}
left join {{ lasting }} as _lasting on {{ hw_equals(keys, '_delta', '_lasting') }}
where {{ moved | join(' or ') }}
{%- endmacro %}


{#- The columns that are sums. -#}
{% macro hw_signed_columns(columns, settings) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set others = (keys + settings.get('derived', {}) | list) | map('lower') | list -%}
    {%- set measures = [] -%}
    {%- for column in columns if column.name | lower not in others -%}
        {%- if column.dtype in ['double', 'float'] -%}
            {{ hw_raise('FLOATING_POINT_SUM',
                'signed_sum adds differences to what is there, and floating-point sums depend on the order of adding: ' ~ column.name
                    ~ ' is a ' ~ column.dtype
                ~ '. Cast what is summed, before it is summed, to a decimal or an integer.') }}
        {%- elif column.dtype.split('(')[0] not in ['tinyint', 'smallint', 'int', 'bigint', 'decimal'] -%}
            {{ hw_raise('NOT_A_SUM', 'signed_sum keeps sums and counts: ' ~ column.name ~ ' is a ' ~ column.dtype
                ~ '. Put it into unique_key, or into derived where it is computed from the sums.') }}
        {%- endif -%}
        {%- do measures.append(column) -%}
    {%- endfor -%}
    {{ return(measures) }}
{% endmacro %}


{% macro hw_with_derived_sql(sql, settings) -%}
select *
    {%- for name, expression in settings.get('derived', {}).items() -%}
, {{ hw_ended(expression) }} as {{ hw_quote(name) }}
    {%- endfor %} from (
{{ sql }}
)
{%- endmacro %}


{#- The measure that counts rows: a group is deleted when it is 0. -#}
{% macro hw_weight_column(sql) %}
    {%- set found = adapter.weight_column(sql) -%}
    {%- if not found -%}
        {{ hw_raise('NO_WEIGHT', 'A signed_sum model needs `sum(_weight) as <name>` among its columns: the count of rows '
            ~ 'tells when a group is gone') }}
    {%- endif -%}
    {{ return(found) }}
{% endmacro %}


{#- Sums of two groups that are one key once stored, the empty text's and NULL's, as one: they change one row. -#}
{% macro hw_one_sum_a_key_sql(sql, keys, settings, columns) %}
    {{ return(hw_summed_again_sql(sql, hw_quoted(keys) | join(', '), hw_signed_columns(columns, settings))
        if hw_partitions_among(keys, settings) else sql) }}
{% endmacro %}


{% macro hw_summed_again_sql(sql, keys, measures) -%}
select {{ keys }}
    {%- for measure in measures -%}
        {%- set name = hw_quote(measure.name) -%}
, sum({{ name }}) as {{ name }}
    {%- endfor %} from (
{{ sql }}
) group by {{ keys }}
{%- endmacro %}


{#- The keys of the groups that a model gives over inputs without rows, as a subquery with the column `_stays`. Spark sees
    that it reads nothing. -#}
{% macro hw_lasting_groups_sql(sql, inputs, keys) -%}
(select {{ hw_quoted(keys) | join(', ') }}, true as _stays from (
{{ hw_with_inputs(sql, hw_without_rows(inputs)) }}
))
{%- endmacro %}


{#- The changed rows among those of the input. Runs a statement. -#}
{% macro hw_signed_sum__share_changed(relation, sql, plan, settings) %}
    {%- set spec = hw_followed_input(plan.inputs) -%}
    {%- set rows = run_query('select count(*) from ' ~ hw_input_sql(spec)).rows[0][0] | int -%}
    {{ return({'part': plan.rows, 'whole': rows, 'what': 'rows of ' ~ spec.source ~ ' changed', 'above': 0.5}) }}
{% endmacro %}


{% macro hw_signed_sum__check(where, sql, inputs, settings) %}
    {%- do hw_weight_column(sql) -%}
{% endmacro %}


{% macro hw_signed_sum__tried_rows(inputs, settings) %}
    {%- set spec = hw_followed_input(inputs) -%}
    {{ return({'spec': spec, 'half': 'monotonically_increasing_id()'} if spec.version is not none else none) }}
{% endmacro %}


{#- For each measure how often it is no sum of weighed rows, and `_empty`, how many groups there are without a row, other
    than those that are there always: the SQL once, and with every row weighed -3. -#}
{% macro hw_signed_sum__differences_sql(sql, inputs, spec, settings, columns, sample) -%}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set once = hw_weighed_side_sql(sql, spec, 1, settings, columns, sample) -%}
    {%- set thrice = hw_weighed_side_sql(sql, spec, -3, settings, columns, sample) -%}
    {%- set lasting = hw_lasting_groups_sql(sql, inputs, keys) -%}
    {%- set weight = '_once.' ~ hw_quote(hw_weight_column(sql)) -%}
select
    {%- for measure in hw_signed_columns(columns, settings) %}
        {%- set name = hw_quote(measure.name) %}
count_if(coalesce(_thrice.{{ name }}, 0) <> -3 * coalesce(_once.{{ name }}, 0)) as {{ name }},
    {%- endfor %}
count_if(_once._here and _lasting._stays is null and coalesce({{ weight }}, 0) = 0)
+ (select count(*) from {{ lasting }} as _lasting left anti join {{ once }} as _once
on {{ hw_equals(keys, '_lasting', '_once') }}) as _empty
from {{ once }} as _once full outer join {{ thrice }} as _thrice on {{ hw_equals(keys, '_once', '_thrice') }}
left join {{ lasting }} as _lasting on {{ hw_equals(keys, '_once', '_lasting') }}
{%- endmacro %}


{#- What the SQL gives for a sample whose rows all have one weight. -#}
{% macro hw_weighed_side_sql(sql, spec, weight, settings, columns, sample) -%}
    {%- set rows = '(select * except (_in_half), ' ~ weight ~ ' as _weight from ' ~ sample ~ ')' -%}
(select *, true as _here from (
{{ hw_one_sum_a_key_sql(hw_with_inputs(sql, {spec.text: rows}), hw_as_list(settings.get('unique_key')), settings, columns) }}
))
{%- endmacro %}


{% macro hw_signed_sum__difference_text(target, spec, name) %}
    {%- if name == '_empty' -%}
        {{ return(target ~ ' gives groups that no row of ' ~ spec.source ~ ' stands behind, as an outer join that keeps all '
            ~ 'rows of a lookup does. Join inner, or use affected_keys.') }}
    {%- endif -%}
    {{ return(
        target ~ ': ' ~ name ~ ' cannot be maintained by adding: deleted rows do not take away what they added. It has to be '
            ~ 'a sum of `… * _weight`, and no more; '
        ~ 'averages and the like go into derived.'
    ) }}
{% endmacro %}


{#- Refuses sums of groups that are one key once stored, the empty text's and NULL's: what changed of one would be added
    to the other. Only where a run changes such a key; `sql` is the model's, as stored. -#}
{% macro hw_signed_sum__inspect(target, stage, keys, look, sql, settings) %}
    {%- set nulls = [] -%}
    {%- for key in hw_partitions_among(keys, settings) if look.nulls[keys.index(key)] -%}
        {%- do nulls.append(hw_quote(key) ~ ' is null') -%}
    {%- endfor -%}
    {%- if nulls -%}
        {%- do hw_refuse_repeated_keys(target, stage, keys, hw_repeated_nulls_sql(sql, hw_quoted(keys) | join(', '), nulls)) -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_repeated_nulls_sql(sql, keys, nulls) -%}
select {{ keys }} from (
{{ sql }}
) where {{ nulls | join(' or ') }} group by {{ keys }} having count(*) > 1
{%- endmacro %}


{% macro hw_signed_sum__named_columns(sql) %}
    {{ return({'sum(_weight)': [hw_weight_column(sql)]}) }}
{% endmacro %}
