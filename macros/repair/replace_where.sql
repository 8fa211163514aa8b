{% macro replace_where(model, predicate, reason=none, dry_run=true, allow_all=false) %}
    {%- if not dry_run -%}{%- do _need_reason('replace_where', reason) -%}{%- endif -%}
    {%- set target = _target('replace_where', model) -%}
    {%- set sql = _model_sql('replace_where', target) -%}
    {%- set found = _matched('replace_where', target, predicate, allow_all) -%}
    {%- set anew = run_query('select count(*) as rows from (\n' ~ sql ~ '\n) where ' ~ predicate).rows[0]['rows'] | int -%}
    {%- if not found.matched and not anew -%}
        {{ exceptions.raise_compiler_error('replace_where: neither ' ~ target.name ~ ' nor its SQL has a row that is taken by ' ~ predicate ~ '. Nothing was changed.') }}
    {%- endif -%}
    {%- do _refuse_failing('replace_where', target, '(\n' ~ sql ~ '\n) where ' ~ predicate) -%}
    {%- set lines = [_target_line(target, found.rows), '  ~ ' ~ found.matched ~ ' rows in ' ~ (found.whole + found.parts) ~ ' files are replaced by the ' ~ anew ~ ' that its SQL gives'] -%}
    {%- if _go_on('replace_where', lines + _followers_line(target), dry_run) -%}
        {%- do _run_recorded('replace_where', target, reason, {'predicate': predicate}, ['insert into ' ~ target.relation ~ ' replace where ' ~ predicate ~ '\nselect * from (\n' ~ sql ~ '\n) where ' ~ predicate]) -%}
    {%- endif -%}
{% endmacro %}
