{#- What a model that follows change feeds must be; checked by its configuration and its text, before anything is read. -#}
{% macro hw_check_model(sql, settings) %}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- set where = model.name ~ ' (' ~ model.original_file_path ~ ', incremental_strategy: ' ~ strategy.configured_as ~ ')' -%}
    {%- set problems = adapter.strategy_problems(where, settings) -%}
    {%- if problems -%}{%- do hw_raise_problems(problems) -%}{%- endif -%}
    {%- do hw_check_inputs(where, strategy, inputs) -%}
    {%- set code = hw_without_inputs(sql, inputs) -%}
    {%- do hw_check_bare_inputs(where, code, strategy.marker) -%}
    {%- do hw_hook(strategy, 'check')(where, sql, inputs, settings) -%}
{% endmacro %}


{% macro hw_check_inputs(where, strategy, inputs) %}
    {%- set wanted = strategy.marker -%}
    {%- for spec in inputs if spec.kind not in [wanted, 'lookup'] -%}
        {{ hw_raise('OTHER_INPUT_MACRO', where ~ ' reads ' ~ spec.source ~ ' with ' ~ spec.kind
            ~ '(). This strategy reads what it follows with ' ~ wanted
            ~ '() and the rest with lookup().') }}
    {%- endfor -%}
    {%- set count = inputs | selectattr('kind', 'equalto', wanted) | list | length -%}
    {%- if count == 0 or (count > 1 and not strategy.many_inputs) -%}
        {{ hw_raise('NUMBER_OF_INPUTS', where ~ ' has ' ~ count ~ ' inputs in ' ~ wanted ~ '(); it needs '
            ~ ('at least one.' if strategy.many_inputs
            else 'exactly one. Mark inputs that change rarely with lookup(), or use affected_keys for several changing inputs.')) }}
    {%- endif -%}
{% endmacro %}


{% macro hw_without_inputs(sql, inputs) %}
    {%- set replacements = {} -%}
    {%- for spec in inputs -%}{%- do replacements.update({spec.text: ' '}) -%}{%- endfor -%}
    {{ return(hw_with_inputs(sql, replacements)) }}
{% endmacro %}


{#- An input that is not marked would be read at whatever version it has, and its changes would never be applied. It may come by a ref(),
    in an ephemeral model, or by its name. `code` is the SQL without its inputs and comments. -#}
{% macro hw_check_bare_inputs(where, code, wanted) %}
    {%- set nodes = hw_declared_tables() -%}
    {%- for name in adapter.names_in(code) if name.parts | length > 1 -%}
        {%- set is_column = name.parts | length > 2 and not name.is_relation and name.parts[:2] in nodes -%}
        {%- set node = nodes.get(name.parts[:2] if is_column else name.parts[-2:]) -%}
        {%- if is_column -%}
            {{ hw_raise('COLUMN_WITH_SCHEMA', where ~ ' names a column ' ~ name.parts | join('.')
                ~ ', and an incremental run reads the rows that changed, '
                ~ 'which have no schema. Write ' ~ name.parts[1:] | join('.') ~ ', or give the input an alias.') }}
        {%- elif node and node.unique_id == model.unique_id -%}
            {%- do hw_raise_reads_itself(where) -%}
        {%- elif node -%}
            {%- do hw_raise_unmarked(where, node, wanted) -%}
        {%- elif name.is_relation -%}
            {%- do hw_raise_undeclared(where, name.parts | join('.'), '{{ ' ~ wanted ~ '(source(…)) }} or {{ lookup(source(…)) }}') -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- The tables that the project declares, by schema and name in lower case. -#}
{% macro hw_declared_tables() %}
    {%- set nodes = {} -%}
    {%- for node in graph.sources.values() | list + graph.nodes.values()
        | selectattr('resource_type', 'in', ['model', 'seed', 'snapshot']) | list -%}
        {%- do nodes.update({(node.schema | lower, (node.identifier or node.alias) | lower): node}) -%}
    {%- endfor -%}
    {{ return(nodes) }}
{% endmacro %}


{% macro hw_raise_reads_itself(where) %}
    {{ hw_raise('READS_ITSELF', where ~ ' reads its own table. What it has must follow from its inputs alone, or a '
        ~ 'full refresh would give another table.') }}
{% endmacro %}


{% macro hw_raise_undeclared(where, source, call) %}
    {{ hw_raise('UNDECLARED_INPUT', where ~ ' reads ' ~ source ~ ', which no source and no model declares, so its changes would be missed. '
        ~ 'Declare it as a source, and write ' ~ call ~ '.') }}
{% endmacro %}


{% macro hw_raise_unmarked(where, node, wanted) %}
    {%- set call = "source('" ~ node.source_name ~ "', '" ~ node.name ~ "')" if node.resource_type == 'source' else "ref('" ~ node.name
        ~ "')" -%}
    {{ hw_raise('UNMARKED_INPUT', where ~ ' reads ' ~ call ~ ' unmarked, so its changes would be missed. Write {{ ' ~ wanted ~ '(' ~ call
        ~ ') }} to follow its changes, or {{ lookup(' ~ call ~ ') }} to read it whole and rebuild the table when it changes.') }}
{% endmacro %}
