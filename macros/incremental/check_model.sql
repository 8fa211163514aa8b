{#- What a model that follows change feeds must be; checked by its configuration and its text, before anything is read. -#}
{% macro hw_check_model(sql, settings) %}
    {%- set strategy = adapter.strategy_of(settings) -%}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- set where = model.name ~ ' (' ~ model.original_file_path ~ ', incremental_strategy: ' ~ strategy.configured_as ~ ')' -%}
    {%- if settings.get('file_format') != 'delta' -%}
        {{ hw_raise('FILE_FORMAT', where ~ ' has file_format: ' ~ settings.get('file_format')
            ~ '. Change feeds are a feature of Delta tables: file_format must be delta.') }}
    {%- elif not hw_as_list(settings.get('unique_key')) -%}
        {{ hw_raise('NO_UNIQUE_KEY', where ~ ' has no unique_key: name the column or columns that tell its rows apart.') }}
    {%- endif -%}
    {%- do hw_check_settings(where, strategy, settings) -%}
    {%- do hw_check_inputs(where, strategy, inputs) -%}
    {%- set code = hw_without_inputs(sql, inputs) -%}
    {%- do hw_check_bare_inputs(where, code, strategy.marker) -%}
    {%- do hw_check_deterministic(where, code, settings) -%}
    {%- do hw_hook(strategy, 'check')(where, sql, inputs, settings) -%}
{% endmacro %}


{% macro hw_check_settings(where, strategy, settings) %}
    {%- set choices = {'on_gap': ['rebuild', 'fail'], 'on_lookup_change': ['rebuild', 'ignore'],
        'on_foreign_write': ['rebuild', 'fail', 'warn']} -%}
    {%- for setting, allowed in choices.items() if settings.get(setting, allowed[0]) not in allowed -%}
        {{ hw_raise('SETTING', where ~ ' has ' ~ setting ~ ': ' ~ settings.get(setting) ~ '. Allowed are ' ~ allowed | join(', ') ~ '.') }}
    {%- endfor -%}
    {%- if not strategy.may_ignore_lookups and settings.get('on_lookup_change') == 'ignore' -%}
        {{ hw_raise('SETTING', where ~ ' has on_lookup_change: ignore. A deleted row takes away what it added, which a lookup '
            ~ 'that changed no longer tells: '
            ~ 'use affected_keys, or rebuild.') }}
    {%- endif -%}
    {%- set share = settings.get('replace_above') -%}
    {%- if share is not none and (share is not number or share < 0) -%}
        {{ hw_raise('SETTING', where ~ ' has replace_above: ' ~ share ~ '. It is a share of the rows, 0.3 for 30 %.') }}
    {%- endif -%}
    {%- for setting, owner in {'latest_by': 'change_feed', 'derived': 'signed_sum'}.items() if settings.get(setting)
        and strategy.configured_as != owner -%}
        {{ hw_raise('SETTING', where ~ ' has ' ~ setting ~ ', which belongs to ' ~ owner ~ ' and would do nothing here.') }}
    {%- endfor -%}
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
    {%- set nodes = {} -%}
    {%- for node in graph.sources.values() | list + graph.nodes.values()
        | selectattr('resource_type', 'in', ['model', 'seed', 'snapshot']) | list -%}
        {%- do nodes.update({(node.schema | lower, (node.identifier or node.alias) | lower): node}) -%}
    {%- endfor -%}
    {%- for name in adapter.names_in(code) if name.parts | length > 1 -%}
        {%- set is_column = name.parts | length > 2 and not name.is_relation and name.parts[:2] in nodes -%}
        {%- set node = nodes.get(name.parts[:2] if is_column else name.parts[-2:]) -%}
        {%- if is_column -%}
            {{ hw_raise('COLUMN_WITH_SCHEMA', where ~ ' names a column ' ~ name.parts | join('.')
                ~ ', and an incremental run reads the rows that changed, '
                ~ 'which have no schema. Write ' ~ name.parts[1:] | join('.') ~ ', or give the input an alias.') }}
        {%- elif node and node.unique_id == model.unique_id -%}
            {{ hw_raise('READS_ITSELF', where ~ ' reads its own table. What it has must follow from its inputs alone, or a '
                ~ 'full refresh would give another table.') }}
        {%- elif node -%}
            {%- do hw_raise_unmarked(where, node, wanted) -%}
        {%- elif name.is_relation -%}
            {{ hw_raise('UNDECLARED_INPUT', where ~ ' reads ' ~ name.parts | join('.') ~ ', which no source and no model '
                ~ 'declares, so its changes would be missed. '
                ~ 'Declare it as a source, and write {{ ' ~ wanted ~ '(source(…)) }} or {{ lookup(source(…)) }}.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{% macro hw_raise_unmarked(where, node, wanted) %}
    {%- set call = "source('" ~ node.source_name ~ "', '" ~ node.name ~ "')" if node.resource_type == 'source' else "ref('" ~ node.name
        ~ "')" -%}
    {{ hw_raise('UNMARKED_INPUT', where ~ ' reads ' ~ call ~ ' unmarked, so its changes would be missed. Write {{ ' ~ wanted ~ '(' ~ call
        ~ ') }} to follow its changes, or {{ lookup(' ~ call ~ ') }} to read it whole and rebuild the table when it changes.') }}
{% endmacro %}


{#- What gives another answer on another day cannot be maintained by following changes. -#}
{% macro hw_check_deterministic(where, code, settings) %}
    {%- set allowed = hw_as_list(settings.get('allow_nondeterministic')) | map('lower') | list -%}
    {%- set stale = ': what it answers changes by itself, so rows that no input affects would go stale.' -%}
    {%- set texts = "(?i)\\b(?:timestamp|timestamp_ntz|timestamp_ltz|date)\\s*'\\s*"
        ~ "(now|today|tomorrow|yesterday)\\b|\\b(tablesample)\\b" -%}
    {%- set moment = modules.re.search(texts, code) -%}
    {%- if moment and (moment.group(1) or moment.group(2)) | lower not in allowed -%}
        {{ hw_raise('NONDETERMINISTIC', where ~ ' uses ' ~ moment.group(0) ~ stale) }}
    {%- endif -%}
    {%- set bare = 'current_timestamp|current_date|localtimestamp|current_time' -%}
    {%- set called = 'now|curdate|unix_timestamp(?=\\s*\\(\\s*\\))|rand|randn|random|randstr|uniform|uuid|shuffle'
        ~ '|monotonically_increasing_id|spark_partition_id|input_file_name' -%}
    {%- set functions = '(?i)(?<![\\w.`])(?:(' ~ bare ~ ')(?![\\w`])|(' ~ bare ~ '|' ~ called ~ ')\\s*\\()' -%}
    {%- for match in modules.re.finditer(functions, adapter.without_texts(code)) -%}
        {%- set name = (match.group(1) or match.group(2)) | lower -%}
        {%- if name not in allowed -%}
            {{ hw_raise('NONDETERMINISTIC', where ~ ' uses ' ~ name ~ '()' ~ stale ~ ' Take the moment from a column of the input, '
                ~ 'or say allow_nondeterministic: [' ~ name ~ '] if rows may keep the answer of the run that wrote them.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- An incremental run puts the rows that changed where the input is named. What meets itself, in a join or a subquery,
    would meet the changed rows alone, and not all of them. Branches of `union all` do not meet. -#}
{% macro hw_check_read_once(where, sql, spec) %}
    {%- set code = adapter.without_texts(hw_with_inputs(sql, {spec.text: ' _followed_ '})) -%}
    {%- set reads = '(?i)\\b(?:from|join)\\s+`?(?:%s)`?(?![\\w.`(])' -%}
    {%- set followed = ['_followed_'] -%}
    {%- for cte in modules.re.finditer('(?i)(?:\\bwith|,)\\s*`?(\\w+)`?\\s+as\\s*\\(', code) -%}
        {%- set body = namespace(depth=1, end=none) -%}
        {%- for bracket in modules.re.finditer('[()]', code[cte.end():]) if body.end is none -%}
            {%- set body.depth = body.depth + (1 if bracket.group() == '(' else -1) -%}
            {%- if body.depth == 0 -%}{%- set body.end = cte.end() + bracket.start() -%}{%- endif -%}
        {%- endfor -%}
        {%- if modules.re.search(reads | replace('%s', followed | join('|')), code[cte.end():body.end]) -%}
            {%- do followed.append(cte.group(1)) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set branches = modules.re.findall('(?i)\\bunion\\s+all\\b', code) | length + 1 -%}
    {%- for name in followed if modules.re.findall(reads | replace('%s', name), code) | length > branches -%}
        {{ hw_raise('READ_TWICE', where ~ ' reads ' ~ name ~ ', whose changes it follows, more than once. An incremental run '
            ~ 'would join the rows that changed '
            ~ 'with each other, and not with all rows. Use affected_keys, which recomputes whole keys.') }}
    {%- endfor -%}
{% endmacro %}


{#- The first piece of a model's text that makes a row depend on several rows of the input, as a beginning of a regular
    expression `more` adds to. -#}
{% macro hw_aggregate_in(code, more='') %}
    {%- set words = 'distinct(?!\\s+from)|having|limit(?=\\s+\\d)|offset(?=\\s+\\d)|over(?=\\s*\\()|intersect'
        ~ '|union(?!\\s*all\\b)|except(?!\\s*\\(\\s*+(?!select\\b))' -%}
    {%- set functions = 'count|avg|mean|min|max|first|last|any_value|median|collect_list|collect_set'
        ~ '|array_agg|count_if|max_by|min_by|stddev|variance' -%}
    {%- set found = modules.re.search(
        '(?i)(?<![\\w.`])(' ~ more ~ words ~ '|(?:' ~ functions ~ ')(?=\\s*\\())(?![\\w`])', adapter.without_texts(code)
    ) -%}
    {{ return(found.group(1) if found else none) }}
{% endmacro %}


{#- Where a strategy recomputes whole keys, no row may look at rows of other keys. -#}
{% macro hw_check_keys_apart(where, code, owner) %}
    {%- set across = '(?i)(?<![\\w.`])(over\\s*\\((?!\\s*(?:partition\\b|\\w+\\s*\\)))|window\\s+\\w+\\s+as\\s*\\((?!\\s*partition\\b)'
        ~ '|(?:limit|offset)\\s+\\d+)' -%}
    {%- set found = modules.re.search(across, adapter.without_texts(code)) -%}
    {%- if found -%}
        {{ hw_raise('ACROSS_KEYS', where ~ ' uses `' ~ found.group(1) ~ '`, whose result depends on rows of other keys, which '
            ~ 'are not recomputed. '
            ~ 'Partition by the key of ' ~ owner ~ ', or make it a table model.') }}
    {%- endif -%}
{% endmacro %}
