{#- Models with incremental_strategy auto: plain SQL, of which scripts/headwaters/analysis/derive.py tells the strategy, the role of
    each input and the keys. A run is then that of the strategy, over the SQL with its inputs marked. -#}

{#- Puts what is derived in place of the model's own settings and SQL. Returns what the table says of itself, if it was read. -#}
{% macro hw_settle_strategy(target, exists) %}
    {%- set is_auto = model.config.get('incremental_strategy') == 'auto' -%}
    {%- set state = hw_applied_state(target) if exists and (is_auto or not should_full_refresh()) else none -%}
    {%- set settled = hw_settled(model, compiled_code, state.properties if state and not should_full_refresh() else {}) -%}
    {%- do model.update({'compiled_code': settled.sql, 'config': settled.settings}) -%}
    {{ return(state) }}
{% endmacro %}


{#- The SQL of a model with its inputs marked, and its settings: `sql`, `settings`. `properties`: those of its table, whose derivation
    counts if it is of the same SQL. -#}
{% macro hw_settled(node, code, properties={}) %}
    {%- if node.config.get('incremental_strategy') != 'auto' -%}
        {{ return({'sql': code, 'settings': adapter.run_config(node)}) }}
    {%- endif -%}
    {%- set where = node.name ~ ' (' ~ node.original_file_path ~ ', incremental_strategy: auto)' -%}
    {%- do hw_check_auto(where, code) -%}
    {%- set settings = adapter.run_config(node) -%}
    {%- set versions = {} -%}
    {%- set neutral = hw_neutral_sql(where, node, code, versions) -%}
    {%- if flags.EMPTY or flags.SAMPLE -%}
        {{ return({'sql': neutral, 'settings': dict(settings, incremental_strategy='replace')}) }}
    {%- endif -%}
    {%- set derivation = hw_derivation(where, neutral, settings, properties) -%}
    {%- set marked = {} -%}
    {%- for spec in hw_inputs_of(neutral) -%}
        {%- do marked.update({spec.text: hw_marked(dict(derivation.inputs[spec.source], source=spec.source, **versions[spec.source]))}) -%}
    {%- endfor -%}
    {{ return({
        'sql': hw_with_inputs(neutral, marked),
        'settings': dict(settings, incremental_strategy=derivation.strategy, unique_key=derivation.unique_key, derivation=derivation,
            leads=derivation.leads, stages=derivation.stages)
    }) }}
{% endmacro %}


{% macro hw_check_auto(where, code) %}
    {%- for spec in hw_inputs_of(code) -%}
        {{ hw_raise('OTHER_INPUT_MACRO', where ~ ' reads ' ~ spec.source ~ ' with ' ~ spec.kind
            ~ '(). auto derives what its inputs are: write ref() and source() alone, or name the strategy.') }}
    {%- endfor -%}
{% endmacro %}


{#- The SQL with every table that it reads marked, as a lookup of no version; views are read through. Fills in the newest version of
    each. -#}
{% macro hw_neutral_sql(where, node, code, versions) %}
    {%- set nodes = hw_declared_tables() -%}
    {%- set replacements = {} -%}
    {%- for source in adapter.relations_in(code) if adapter.parts_of(source) | length > 1 -%}
        {%- set declared = nodes.get(adapter.parts_of(source)) -%}
        {%- if not declared -%}
            {%- do hw_raise_undeclared(where, source, 'source(…) in its place') -%}
        {%- elif declared.unique_id == node.unique_id -%}
            {%- do hw_raise_reads_itself(where) -%}
        {%- endif -%}
        {%- do replacements.update({source: hw_neutral_input(source, versions)}) -%}
    {%- endfor -%}
    {{ return(adapter.with_relations(code, replacements)) }}
{% endmacro %}


{% macro hw_neutral_input(source, versions) %}
    {%- set newest = versions.get(source) or hw_newest_version('auto', source) -%}
    {%- if newest -%}
        {%- do versions.update({source: newest}) -%}
        {{ return(hw_marked({'kind': 'lookup', 'source': source, 'version': none, 'at': none})) }}
    {%- endif -%}
    {%- set view = hw_view('auto', source) -%}
    {%- set replacements = {} -%}
    {%- for name in view.relations if name not in replacements -%}
        {%- do replacements.update({name: hw_neutral_input(name, versions)}) -%}
    {%- endfor -%}
    {{ return(hw_text_of_view(source, view, replacements)) }}
{% endmacro %}


{#- `strategy`, `unique_key`, `inputs` (what input macros write, by source), `reason` (why no more is followed) and `of`, what it was
    derived from. A table keeps it. To derive it runs two statements for each input, which tell its columns and whether it has a change
    data feed. -#}
{% macro hw_derivation(where, neutral, settings, properties) %}
    {%- set sql = adapter.prepared_sql(neutral) -%}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- set functions = adapter.surroundings(sql).functions -%}
    {%- set of = local_md5(tojson([neutral, hw_as_list(settings.get('unique_key')), settings.get('allow_nondeterministic'),
        adapter.noted_proof({}, inputs, graph), functions, hw_expectations_met(hw_expectations_that(settings, 'drop'))])) -%}
    {%- set noted = fromjson(properties.get('headwaters.proof', 'null'), none) -%}
    {%- if noted is mapping and noted.of == of -%}
        {{ return(noted) }}
    {%- endif -%}
    {%- for spec in inputs -%}{%- do spec.update({'has_feed': hw_has_feed(spec.source)}) -%}{%- endfor -%}
    {%- set derivation = adapter.derivation(sql, hw_with_columns(inputs), settings, graph, functions, neutral) -%}
    {%- if derivation is mapping and derivation.stages and not hw_may_be_kept(derivation.stages) -%}
        {%- set derivation = adapter.derivation(sql, inputs, dict(settings, is_whole=true), graph, functions, neutral) -%}
    {%- endif -%}
    {%- if derivation is not mapping -%}
        {%- do hw_raise_problems([derivation.at(where)]) -%}
    {%- endif -%}
    {%- set problem = adapter.problem_of_unread(hw_kept_sql(neutral, settings), inputs, derivation.unread) if derivation.unread else none -%}
    {%- if problem -%}
        {%- do hw_raise_problems([problem.at(where)]) -%}
    {%- endif -%}
    {{ return(dict(derivation, of=of)) }}
{% endmacro %}


{#- Whether values of all columns of the hidden tables stay what they are in a table, and are equal only if they are the same. Runs a
    statement for each. -#}
{% macro hw_may_be_kept(stages) %}
    {%- for stage in stages.tables -%}
        {%- set columns = adapter.get_column_schema_from_query(adapter.with_names(stage.sql, stages.names)) -%}
        {%- if not adapter.are_exact(columns | map(attribute='dtype') | list) -%}{{ return(false) }}{%- endif -%}
    {%- endfor -%}
    {{ return(true) }}
{% endmacro %}
