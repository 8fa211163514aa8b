{% macro replace_where(model, predicate, reason=none, dry_run=true, allow_all=false) %}
    {%- if not dry_run -%}{%- do hw_require_reason('replace_where', reason) -%}{%- endif -%}
    {%- set target = hw_target('replace_where', model) -%}
    {%- set rows = hw_rows_where_sql(hw_full_refresh_sql_of_model('replace_where', target), predicate) -%}
    {%- set found = hw_matched('replace_where', target, predicate, allow_all) -%}
    {%- set computed = run_query('select count(*) as rows from ' ~ rows).rows[0]['rows'] | int -%}
    {%- if not found.matched and not computed -%}
        {{ hw_raise('HW_NO_ROW_MATCHES', 'replace_where: neither ' ~ target.name ~ ' nor its SQL has a row that is taken by '
            ~ predicate ~ '. Nothing was changed.') }}
    {%- endif -%}
    {%- do hw_refuse_failing('replace_where', target, rows) -%}
    {%- set lines = [hw_target_line(target, found.rows), '  ~ ' ~ found.matched ~ ' rows in ' ~ (found.whole + found.parts)
        ~ ' files are replaced by the ' ~ computed ~ ' that its SQL gives'] -%}
    {%- if hw_proceed('replace_where', lines + hw_followers_line(target), dry_run) -%}
        {%- do hw_run_operation('replace_where', target, reason, {'predicate': predicate},
            [hw_replace_where_sql(target.relation, predicate, rows)]) -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_rows_where_sql(sql, predicate) -%}
(
{{ sql }}
) where ({{ hw_bracketed(predicate) }})
{%- endmacro %}


{% macro hw_replace_where_sql(relation, predicate, rows) -%}
insert into {{ relation }} replace where {{ hw_bracketed(predicate) }}
select * from {{ rows }}
{%- endmacro %}
