{#- What has to hold between tables, said before a run touches one: sources' properties are known, and no table forgets its changes before
    those who follow them have read them. Runs on-run-start; asks nothing of Spark. -#}
{% macro check_tables() %}
    {%- if execute -%}
        {%- for source in graph.sources.values() -%}
            {%- do hw_check_properties(source.original_file_path ~ ': ' ~ source.schema ~ '.' ~ source.identifier, source.config) -%}
            {%- do hw_check_policy(source.original_file_path ~ ': ' ~ source.schema ~ '.' ~ source.identifier, source.config) -%}
            {%- do hw_check_stream_retention(source) -%}
        {%- endfor -%}
        {%- for node in graph.nodes.values() if node.resource_type == 'model' and hw_setting(node.config, 'runs_every') -%}
            {%- do hw_check_feed_retention(node) -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- A model that runs every N days needs the changes of N days, from every input that it follows. -#}
{% macro hw_check_feed_retention(node) %}
    {%- set every = hw_milliseconds_of(hw_setting(node.config, 'runs_every')) -%}
    {%- if every is none -%}
        {{ exceptions.raise_compiler_error(node.original_file_path ~ ": runs_every is '" ~ hw_setting(node.config, 'runs_every') ~ "': write a length of time, such as 1 day or 6 hours.") }}
    {%- endif -%}
    {%- if adapter.strategy_of(node.config) -%}
        {%- for id in node.depends_on.nodes -%}
            {%- set input = graph.sources.get(id) or graph.nodes.get(id) -%}
            {%- for name, default in {'delta.deletedFileRetentionDuration': 'interval 1 week', 'delta.logRetentionDuration': 'interval 30 days'}.items() if input -%}
                {%- set kept = hw_declared_properties(input.config).get(name, default) -%}
                {%- if hw_milliseconds_of(kept) is not none and hw_milliseconds_of(kept) < every -%}
                    {{ exceptions.raise_compiler_error(node.schema ~ '.' ~ node.alias ~ ' runs every ' ~ hw_setting(node.config, 'runs_every') ~ ' and follows the changes of ' ~ input.schema ~ '.'
                        ~ (input.identifier or input.alias) ~ ', which keeps them for ' ~ kept ~ ' only (' ~ name ~ '): what changed in between would be lost. Keep them longer, or run more often.') }}
                {%- endif -%}
            {%- endfor -%}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}


{#- A stream knows by the transactions that a table remembers which batches it holds: they have to outlive the time between two. -#}
{% macro hw_check_stream_retention(source) %}
    {%- set trigger = (hw_setting(source.config, 'stream') or {}).get('trigger') -%}
    {%- set kept = hw_declared_properties(source.config).get('delta.setTransactionRetentionDuration') -%}
    {%- set every = ((trigger * 1000) if trigger is number else hw_milliseconds_of(trigger)) if trigger else none -%}
    {%- if kept and every and hw_milliseconds_of(kept) is not none and hw_milliseconds_of(kept) < every -%}
        {{ exceptions.raise_compiler_error('the stream ' ~ source.name ~ ' writes every ' ~ trigger ~ ' to ' ~ source.schema ~ '.' ~ source.identifier ~ ', which remembers its batches for ' ~ kept
            ~ ' only (delta.setTransactionRetentionDuration): a batch could be written twice. Keep them longer, or leave the property out.') }}
    {%- endif -%}
{% endmacro %}
