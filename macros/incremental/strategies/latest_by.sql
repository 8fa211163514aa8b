{#- The greatest row of each key by `latest_by`; rows equal in those columns are told apart by the rest of the row, so that the
    result does not depend on the order of reading. -#}
{% macro hw_latest_rows_sql(sql, settings) %}
    {{ return(
        'select inline(array(_latest._row)) from (select max(struct(' ~ hw_quoted(settings.get('latest_by')) | join(', ')
        ~ ', struct(*) as _row)) as _latest from (\n' ~ sql ~ '\n) group by ' ~ hw_quoted(settings.get('unique_key')) | join(', ') ~ ')'
    ) }}
{% endmacro %}


{#- The winners of a batch against the rows that the target has: only a greater row replaces one. -#}
{% macro hw_newer_rows_sql(target, winners, settings, bounds) %}
    {%- set keys = hw_as_list(settings.get('unique_key')) -%}
    {%- set order = hw_as_list(settings.get('latest_by')) -%}
    {{ return(
        'with _winners as (select struct(*) as _row, * from (\n' ~ winners ~ '\n)),\n'
        ~ '_present as (select struct(*) as _row, * from ' ~ target ~ ' as _target where ' ~ hw_within_bounds(bounds, '_target') ~ ')\n'
        ~ 'select inline(array(_new._row))' ~ hw_before_sql(settings, '_old._row') ~ ", if(_old._row is null, 'insert', 'update') as _operation\n"
        ~ 'from _winners as _new left join _present as _old on ' ~ hw_equals(keys, '_new', '_old') ~ '\n'
        ~ 'where _old._row is null or struct(' ~ hw_quoted(order, '_new') | join(', ') ~ ', _new._row) > struct(' ~ hw_quoted(order, '_old') | join(', ') ~ ', _old._row)'
    ) }}
{% endmacro %}
