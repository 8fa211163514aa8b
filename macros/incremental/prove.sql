{#- Refuses a model whose SQL does not prove that its strategy maintains it: scripts/headwaters/analysis, docs/analysis.md. Asked where the
    SQL builds its first table, or another SQL than before, or reads other columns, and of tables that note no proof by today's rules
    and the keys that the project promises. Under `incremental_proof: sample` a sample of rows takes its place (check_by_rows.sql). -#}
{% macro hw_require_proof(target, plan) %}
    {%- set settings = model.config -%}
    {%- set noted = adapter.as_mapping(plan.detail['properties']).get('headwaters.proof') if plan.detail else none -%}
    {%- if settings.get('derivation') -%}
        {#- what it was derived from may be other columns: the next run derives it again -#}
        {%- if plan.choice == 'replace' and not plan.same_sql and noted == adapter.noted_proof(settings, plan.inputs, graph) -%}
            {%- do settings.derivation.update({'of': none}) -%}
        {%- endif -%}
    {%- elif settings.get('incremental_proof') == 'sample' -%}
        {%- do exceptions.warn(target ~ ': incremental_proof is sample, so nothing proves that an incremental run leaves what a full '
            ~ 'refresh would have left; a thousand rows are tried where its SQL is new.') -%}
    {%- elif (plan.patch or plan.choice != 'skip')
        and not (plan.same_sql and noted == adapter.noted_proof(settings, plan.inputs, graph)) -%}
        {%- do hw_prove(target, model, adapter.prepared_sql(compiled_code), settings) -%}
    {%- endif -%}
{% endmacro %}


{% macro hw_prove(target, node, sql, settings) %}
    {%- set refused = hw_refusal(sql, settings) -%}
    {%- if refused -%}
        {%- do hw_raise_problems([refused.at(target ~ ' (' ~ node.original_file_path ~ ', incremental_strategy: '
            ~ settings.get('incremental_strategy') ~ ')')]) -%}
    {%- endif -%}
{% endmacro %}


{#- Why the SQL proves nothing, or none. Runs a statement for each input, which tells its columns. A sample or an empty run has nothing to
    prove. -#}
{% macro hw_refusal(sql, settings) %}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- if inputs | selectattr('version', 'none') | list -%}{{ return(none) }}{%- endif -%}
    {{ return(adapter.refusal(sql, hw_with_columns(inputs), settings, graph, adapter.surroundings(sql).functions)) }}
{% endmacro %}


{#- The inputs with what Spark says of their columns. -#}
{% macro hw_with_columns(inputs) %}
    {%- for spec in inputs -%}
        {%- do spec.update({'columns': adapter.get_column_schema_from_query('select * from ' ~ hw_input_sql(spec))}) -%}
    {%- endfor -%}
    {{ return(inputs) }}
{% endmacro %}
