{#- dbt-spark's own strategies on Delta: `append`, `merge`, `insert_overwrite` and `microbatch`, configured as dbt
    documents them. Corrections:
    - The batch is staged in a real table of the model's schema. dbt-spark's temporary views of two models with one name
      overwrite each other in a shared session.
    - Keys are compared null-safe and quoted.
    - No setting of the session changes.
    - A microbatch replaces its period.
    - Merges take the settings that dbt-databricks users know.
    scripts/headwaters/runs/stock.py decides how a batch is written, or refuses it, before the first write. -#}
{% macro hw_run_stock_strategy(strategy) %}
    {%- do hw_check_stock_strategy(strategy) -%}
    {%- set target = this.incorporate(type='table', is_delta=true) -%}
    {%- set existing = load_cached_relation(this) -%}

    {{ run_hooks(pre_hooks) }}

    {%- set replaced = should_full_refresh() and adapter.stock.begins_refresh(model, flags) -%}
    {%- set created = existing is none or existing.is_view or not existing.is_delta or replaced -%}
    {%- set detail = none if created else run_query('describe detail ' ~ target).rows[0] -%}
    {%- set rows_sql = hw_model_sql() -%}
    {%- set write = hw_stock_write(target, detail, rows_sql) -%}
    {%- set sql = hw_within_period_sql(rows_sql, write.period) if write.period else rows_sql -%}
    {%- if created -%}
        {%- if existing is not none and (existing.is_view or not existing.is_delta) -%}
            {%- do adapter.drop_relation(existing) -%}
        {%- endif -%}
        {%- call statement('main') -%}{{ create_table_as(false, target, sql) }}{%- endcall -%}
        {%- do persist_constraints(target, model) -%}
    {%- else -%}
        {%- do hw_write_stock_batch(target, detail, write, sql) -%}
    {%- endif -%}

    {%- do apply_grants(target, config.get('grants'), should_revoke(existing, full_refresh_mode=created)) -%}
    {%- do persist_docs(target, model) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmacro %}


{% macro hw_check_stock_strategy(strategy) %}
    {%- set allowed = ['append', 'merge', 'insert_overwrite', 'microbatch'] + adapter.analysis.strategy_names() -%}
    {%- if strategy not in allowed -%}
        {{ hw_raise('HW_UNKNOWN_STRATEGY', model.name ~ ' (' ~ model.original_file_path ~ ") has incremental_strategy '" ~ strategy
            ~ "': allowed are " ~ allowed | join(', ')) }}
    {%- endif -%}
    {%- if config.get('file_format') != 'delta' -%}
        {{ hw_raise('HW_FILE_FORMAT', model.name ~ ' (' ~ model.original_file_path ~ ') has file_format '
            ~ config.get('file_format') ~ ': incremental models are Delta tables, set file_format: delta') }}
    {%- endif -%}
{% endmacro %}


{#- Returns the decision about a batch's write to its table, whose row of DESCRIBE DETAIL is `detail`, or to a new
    one. -#}
{% macro hw_stock_write(target, detail, rows_sql) %}
    {%- set table = none -%}
    {%- if detail -%}
        {%- set fields = hw_table_state(target.identifier, target).fields or none if adapter.stock.may_fill(detail) else [] -%}
        {%- set table = adapter.stock.table_of(adapter.get_columns_in_relation(target), detail, fields) -%}
    {%- endif -%}
    {%- set batch = adapter.stock.columns_of(run_query('describe query\n' ~ rows_sql).rows) -%}
    {%- set write = adapter.stock.write_of(model, batch, table, flags) -%}
    {%- if write.problem -%}{{ hw_raise_problems([write.problem]) }}{%- endif -%}
    {{ return(write) }}
{% endmacro %}


{#- Changes the table after the batch is staged, since the model's SQL may fail until then. -#}
{% macro hw_write_stock_batch(target, detail, write, sql) %}
    {%- set stage = hw_staging_relation(target) -%}
    {%- if write.partitions -%}
        {#- MERGE compares the batch with the table, and the table has NULL for an empty text in a partition column. -#}
        {%- set sql = adapter.analysis.as_stored(adapter.stock.without_end(sql), write.partitions) -%}
    {%- endif -%}
    {%- do hw_create_staging_table(stage, sql) -%}
    {%- do hw_reconcile_table(target, detail) -%}
    {%- for statement in hw_column_changes_sql(target, write) -%}{%- do run_query(statement) -%}{%- endfor -%}
    {%- set statement_sql = hw_stock_merge_sql(target, stage, write) if write.merge else hw_stock_insert_sql(target, stage, write) -%}
    {%- call statement('main') -%}{{ statement_sql }}{%- endcall -%}
    {%- do hw_drop_staging_table(stage) -%}
{% endmacro %}


{#- Applies dbt's `on_schema_change: sync_all_columns`; the statement that writes the rows adds new columns. -#}
{% macro hw_column_changes_sql(target, write) %}
    {%- set statements = [] -%}
    {%- if write.dropped -%}
        {%- do statements.append('alter table ' ~ target ~ ' drop columns (' ~ hw_quoted(write.dropped) | join(', ') ~ ')') -%}
    {%- endif -%}
    {%- for column in write.widened -%}
        {%- do statements.append('alter table ' ~ target ~ ' alter column ' ~ hw_quote(column.name) ~ ' type ' ~ column.type) -%}
    {%- endfor -%}
    {{ return(statements) }}
{% endmacro %}


{#- Selects the rows of a microbatch. It fails at a row outside of the period, which its own batch would write
    again. -#}
{% macro hw_within_period_sql(sql, period) -%}
    {%- set shown = 'coalesce(cast(' ~ hw_quote(period.column) ~ " as string), 'NULL')" -%}
select * from (
{{ adapter.stock.without_end(sql) }}
) where if({{ hw_period_condition(period) }}, true, raise_error(concat({{ hw_literal(period.outside) }}, {{ shown }})))
{%- endmacro %}


{% macro hw_period_condition(period) -%}
{{ hw_quote(period.column) }} >= {{ period.start }} and {{ hw_quote(period.column) }} < {{ period.end }}
{%- endmacro %}


{% macro hw_stock_insert_sql(target, stage, write) -%}
    {%- set options = {'mergeSchema': 'true'} if write.evolves else {} -%}
    {%- if write.period -%}{%- do options.update({'replaceWhere': hw_period_condition(write.period)}) -%}{%- endif -%}
    {%- if write.overwrites -%}{%- do options.update({'partitionOverwriteMode': write.overwrites}) -%}{%- endif -%}
insert {{ 'overwrite' if write.period or write.overwrites else 'into' }} {{ target }}
{%- if options %} with ({{ hw_assignments(options) }}){% endif %} by name
select
{%- for name in write.columns %} {{ hw_cast_column(name, write.casts[name]) if name in write.casts else hw_quote(name) }}
{%- if not loop.last %},{% endif -%}
{%- endfor %} from {{ stage }}
{%- endmacro %}


{% macro hw_cast_column(name, type) -%}
cast({{ hw_quote(name) }} as {{ type }}) as {{ hw_quote(name) }}
{%- endmacro %}


{% macro hw_stock_merge_sql(target, stage, write) -%}
    {%- set merge, quoted = write.merge, hw_quoted(write.columns) | join(', ') -%}
    {%- set on = hw_equals(merge.keys, merge.target, merge.source) if merge.keys else 'false' -%}
merge {{ 'with schema evolution ' if write.evolves }}into {{ target }} as {{ merge.target }} using
{%- if merge.inserts and merge.keys %} (
{{ hw_unrepeated_sql(target, stage, merge) }}
) as {{ merge.source }}
{%- else %} {{ stage }} as {{ merge.source }}
{%- endif %}
on {{ hw_all_of(merge.predicates | list + [on]) }}
{%- if merge.deletes %}
when matched and {{ hw_bracketed(merge.deletes) }} then delete
{%- endif %}
{%- if merge.updates %}
when matched{{ hw_and(merge.update_condition) }} then update set {{ hw_set_from(merge.updates, merge.source) }}
{%- endif %}
{%- if merge.inserts %}
when not matched{{ ' and ' ~ hw_all_of(merge.insert_conditions) if merge.insert_conditions }} then insert ({{ quoted }})
values ({{ hw_quoted(merge.inserts, merge.source) | join(', ') }})
{%- endif %}
{%- if merge.by_source_action %}
when not matched by source{{ hw_and(merge.by_source_condition) }} then {{ merge.by_source_action }}
{%- endif %}
{%- endmacro %}


{#- Selects the staged rows. It fails if rows that may be inserted repeat a key: Delta fails only if such rows match. -#}
{% macro hw_unrepeated_sql(target, stage, merge) -%}
    {%- set text = ('[HW_REPEATED_KEYS] ' ~ hw_repeated_keys_text(target, merge.keys)).split('%s') -%}
    {%- set inserted -%}
(select * from {{ stage }} as {{ merge.source }}{% if merge.insert_conditions %} where {{ hw_all_of(merge.insert_conditions) }}{% endif %})
    {%- endset -%}
select * except (_repeated) from {{ stage }} cross join (
select max(concat_ws(', ', {{ hw_keys_as_text(merge.keys) | join(', ') }})) as _repeated from (
{{ hw_repeated_keys_sql(merge.keys, inserted) }}
)
) where if(_repeated is null, true, raise_error(concat({{ hw_literal(text[0]) }}, _repeated, {{ hw_literal(text[1]) }})))
{%- endmacro %}


{% macro hw_set_from(names, source) %}
    {%- set assignments = [] -%}
    {%- for name in hw_quoted(names) -%}{%- do assignments.append(name ~ ' = ' ~ source ~ '.' ~ name) -%}{%- endfor -%}
    {{ return(assignments | join(', ')) }}
{% endmacro %}
