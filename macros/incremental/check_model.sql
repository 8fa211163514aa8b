{#- What a model that follows change feeds must be; said before anything is read. -#}
{% macro hw_check_model(strategy, sql, settings) %}
    {%- set wanted = {'change_feed': 'changes', 'affected_keys': 'affected', 'signed_sum': 'signed', 'history': 'images'}[strategy] -%}
    {%- set inputs = hw_inputs_of(sql) -%}
    {%- set kinds = inputs | map(attribute='kind') | list -%}
    {%- set where = model.name ~ ' (' ~ model.original_file_path ~ ', incremental_strategy: ' ~ strategy ~ ')' -%}
    {%- if settings.get('file_format') != 'delta' -%}
        {{ exceptions.raise_compiler_error(where ~ ' has file_format: ' ~ settings.get('file_format') ~ '. Change feeds are a feature of Delta tables: file_format must be delta.') }}
    {%- endif -%}
    {%- if not hw_as_list(settings.get('unique_key')) -%}
        {{ exceptions.raise_compiler_error(where ~ ' has no unique_key: name the column or columns that tell its rows apart.') }}
    {%- endif -%}
    {%- if 'macro.dbt.is_incremental' in model.depends_on.macros -%}
        {{ exceptions.raise_compiler_error(where ~ ' calls dbt.is_incremental(): the SQL of the model is that of the whole table in every run. Remove the condition and what depends on it.') }}
    {%- endif -%}
    {%- do hw_check_settings(where, strategy, settings) -%}
    {%- for spec in inputs if spec.kind not in [wanted, 'lookup'] -%}
        {{ exceptions.raise_compiler_error(where ~ ' reads ' ~ spec.source ~ ' with ' ~ spec.kind ~ '(). This strategy reads what it follows with ' ~ wanted ~ '() and the rest with lookup().') }}
    {%- endfor -%}
    {%- if wanted not in kinds or (strategy != 'affected_keys' and kinds | select('equalto', wanted) | list | length > 1) -%}
        {{ exceptions.raise_compiler_error(where ~ ' has ' ~ kinds | select('equalto', wanted) | list | length ~ ' inputs in ' ~ wanted ~ '(); it needs '
            ~ ('at least one.' if strategy == 'affected_keys' else 'exactly one. Mark inputs that change rarely with lookup(), or use affected_keys for several changing inputs.')) }}
    {%- endif -%}
    {%- set code = hw_without_inputs(sql, inputs) -%}
    {%- do hw_check_bare_inputs(where, code, wanted) -%}
    {%- do hw_check_deterministic(where, code, settings) -%}
    {%- if strategy != 'affected_keys' -%}
        {%- do hw_check_read_once(where, sql, (inputs | selectattr('kind', 'equalto', wanted) | list)[0]) -%}
    {%- endif -%}
    {%- if 'lookup' not in kinds -%}
        {%- do hw_check_linear(where, strategy, code, settings) -%}
    {%- endif -%}
    {%- if strategy == 'affected_keys' -%}
        {%- set affected = inputs | selectattr('kind', 'equalto', 'affected') | list -%}
        {%- for spec in affected -%}
            {%- if spec.key | sort != affected[0].key | sort -%}
                {{ exceptions.raise_compiler_error(where ~ ': its inputs name different keys, ' ~ affected[0].source ~ ' ' ~ affected[0].key | list ~ ' and ' ~ spec.source ~ ' ' ~ spec.key | list
                    ~ '. All must lead to the same columns of the model; key={"model_column": "input_column"} where the names differ.') }}
            {%- endif -%}
            {%- if spec.via and spec.via not in affected | map(attribute='source') -%}
                {{ exceptions.raise_compiler_error(where ~ ': affected(' ~ spec.source ~ ', via=' ~ spec.via ~ ') goes through a table that is not an affected() input of the model itself.') }}
            {%- endif -%}
        {%- endfor -%}
    {%- elif strategy == 'signed_sum' -%}
        {%- do hw_weight_column(sql) -%}
    {%- elif strategy == 'history' and not modules.re.search('(?i)\\b_image\\b', hw_without_inputs(sql, inputs)) -%}
        {{ exceptions.raise_compiler_error(where ~ ' does not select `_image`: the column of images() that says when each image became true has to be among those that the model selects.') }}
    {%- endif -%}
{% endmacro %}


{% macro hw_check_settings(where, strategy, settings) %}
    {%- for setting, allowed in {'on_gap': ['rebuild', 'fail'], 'on_lookup_change': ['rebuild', 'ignore'], 'on_foreign_write': ['rebuild', 'fail', 'warn']}.items() -%}
        {%- if settings.get(setting, allowed[0]) not in allowed -%}
            {{ exceptions.raise_compiler_error(where ~ ' has ' ~ setting ~ ': ' ~ settings.get(setting) ~ '. Allowed are ' ~ allowed | join(', ') ~ '.') }}
        {%- endif -%}
    {%- endfor -%}
    {%- if strategy == 'signed_sum' and settings.get('on_lookup_change') == 'ignore' -%}
        {{ exceptions.raise_compiler_error(where ~ ' has on_lookup_change: ignore. A row that is deleted takes away what it added, which a lookup that changed no longer tells: use affected_keys, or rebuild.') }}
    {%- endif -%}
    {%- if settings.get('replace_above') is not none and (settings.get('replace_above') is not number or settings.get('replace_above') < 0) -%}
        {{ exceptions.raise_compiler_error(where ~ ' has replace_above: ' ~ settings.get('replace_above') ~ '. It is a share of the rows, 0.3 for 30 %.') }}
    {%- endif -%}
    {%- for setting, strategies in {'latest_by': 'change_feed', 'derived': 'signed_sum'}.items() if settings.get(setting) and strategy != strategies -%}
        {{ exceptions.raise_compiler_error(where ~ ' has ' ~ setting ~ ', which belongs to ' ~ strategies ~ ' and would do nothing here.') }}
    {%- endfor -%}
{% endmacro %}


{% macro hw_without_inputs(sql, inputs) %}
    {%- set replacements = {} -%}
    {%- for spec in inputs -%}{%- do replacements.update({spec.text: ' '}) -%}{%- endfor -%}
    {{ return(hw_with_inputs(sql, replacements)) }}
{% endmacro %}


{#- An input that is not marked would be read at whatever version it has, and its changes would never be followed. It may come by a ref(),
    in an ephemeral model, or by its name. `code` is the SQL without its inputs and comments. -#}
{% macro hw_check_bare_inputs(where, code, wanted) %}
    {%- set nodes = {} -%}
    {%- for node in graph.sources.values() | list + graph.nodes.values() | selectattr('resource_type', 'in', ['model', 'seed', 'snapshot']) | list -%}
        {%- do nodes.update({(node.schema | lower, (node.identifier or node.alias) | lower): node}) -%}
    {%- endfor -%}
    {%- for name in adapter.names_in(code) if name.parts | length > 1 -%}
        {%- set is_column = name.parts | length > 2 and not name.is_relation and name.parts[:2] in nodes -%}
        {%- set node = nodes.get(name.parts[:2] if is_column else name.parts[-2:]) -%}
        {%- set text = name.parts | join('.') -%}
        {%- if is_column -%}
            {{ exceptions.raise_compiler_error(where ~ ' names a column ' ~ text ~ ', and an incremental run reads the rows that changed, which have no schema. Write ' ~ name.parts[1:] | join('.') ~ ', or give the input an alias.') }}
        {%- elif node and node.unique_id == model.unique_id -%}
            {{ exceptions.raise_compiler_error(where ~ ' reads its own table. What it holds has to follow from its inputs alone, or a full refresh would give another table.') }}
        {%- elif node -%}
            {%- set call = "source('" ~ node.source_name ~ "', '" ~ node.name ~ "')" if node.resource_type == 'source' else "ref('" ~ node.name ~ "')" -%}
            {{ exceptions.raise_compiler_error(
                where ~ ' reads ' ~ call ~ ' unmarked, so its changes would be missed. Write {{ ' ~ wanted ~ '(' ~ call ~ ') }} to follow its changes, or {{ lookup('
                ~ call ~ ') }} to read it whole and rebuild the table when it changes.'
            ) }}
        {%- elif name.is_relation -%}
            {{ exceptions.raise_compiler_error(where ~ ' reads ' ~ text ~ ', which no source and no model declares, so its changes would be missed. Declare it as a source, and write {{ ' ~ wanted
                ~ '(source(…)) }} or {{ lookup(source(…)) }}.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- What gives another answer on another day cannot be kept by following changes. -#}
{% macro hw_check_deterministic(where, code, settings) %}
    {%- set allowed = hw_as_list(settings.get('allow_nondeterministic')) | map('lower') | list -%}
    {%- set moment = modules.re.search("(?i)\\b(?:timestamp|timestamp_ntz|timestamp_ltz|date)\\s*'\\s*(now|today|tomorrow|yesterday)\\b|\\b(tablesample)\\b", code) -%}
    {%- if moment and (moment.group(1) or moment.group(2)) | lower not in allowed -%}
        {{ exceptions.raise_compiler_error(where ~ ' uses ' ~ moment.group(0) ~ ': what it answers changes by itself, so rows that no input touches would go stale.') }}
    {%- endif -%}
    {%- set code = adapter.without_texts(code) -%}
    {%- set functions = 'now|current_timestamp|current_date|curdate|localtimestamp|current_time|unix_timestamp(?=\\s*\\(\\s*\\))|rand|randn|random|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id|input_file_name' -%}
    {%- for match in modules.re.finditer('(?i)(?<![\\w.`])(?:(current_timestamp|current_date|localtimestamp|current_time)(?![\\w`])|(' ~ functions ~ ')\\s*\\()', code) -%}
        {%- set name = (match.group(1) or match.group(2)) | lower -%}
        {%- if name not in allowed -%}
            {{ exceptions.raise_compiler_error(
                where ~ ' uses ' ~ name ~ '(): what it answers changes by itself, so rows that no input touches would go stale. Take the moment from a column of the input, '
                ~ 'or say allow_nondeterministic: [' ~ name ~ '] if rows may keep the answer of the run that wrote them.'
            ) }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Columns that the configuration names and the model's SQL does not give; columns that cannot be compared; and inputs without a change feed. Asked where a table is built anew. -#}
{% macro hw_check_columns(strategy, target, sql, columns, inputs, settings) %}
    {%- set names = columns | map(attribute='name') | map('lower') | list -%}
    {%- set wanted = {'unique_key': hw_as_list(settings.get('unique_key')), 'latest_by': hw_as_list(settings.get('latest_by')), 'prune_by': hw_as_list(settings.get('prune_by'))} -%}
    {%- if strategy == 'signed_sum' -%}
        {%- do wanted.update({'sum(_weight)': [hw_weight_column(sql)]}) -%}
    {%- endif -%}
    {%- for column in columns if column.name | lower in hw_reserved_columns(strategy) or modules.re.fullmatch('(?i)_before_\\d+', column.name) -%}
        {{ exceptions.raise_compiler_error(target ~ ': the engine needs the name ' ~ column.name ~ ' itself. Give the column another one, as in `' ~ adapter.quote(column.name) ~ ' as ' ~ (column.name.strip('_') or 'value') ~ '`.') }}
    {%- endfor -%}
    {%- for column in columns if modules.re.search('\\b(map<|variant\\b)', column.dtype) -%}
        {{ exceptions.raise_compiler_error(target ~ ': ' ~ column.name ~ ' is a ' ~ column.dtype ~ ', and Spark cannot say whether two of those are the same. Select map_entries(…) or to_json(…) of it.') }}
    {%- endfor -%}
    {%- for spec in inputs if spec.kind == 'affected' -%}
        {%- do wanted.update({'key of affected(' ~ spec.source ~ ')': spec.key | list}) -%}
    {%- endfor -%}
    {%- for setting, named in wanted.items() -%}
        {%- for column in named if column | lower not in names -%}
            {{ exceptions.raise_compiler_error(target ~ ': ' ~ setting ~ ' names the column ' ~ column ~ ', which the model does not have. It has ' ~ columns | map(attribute='name') | join(', ') ~ '.') }}
        {%- endfor -%}
    {%- endfor -%}
    {%- for spec in inputs if spec.kind != 'lookup' and spec.version is not none -%}
        {%- set properties = hw_as_mapping(run_query('describe detail ' ~ spec.source).rows[0]['properties']) -%}
        {%- if (properties.get('delta.enableChangeDataFeed', 'false') | lower) != 'true' -%}
            {{ exceptions.raise_compiler_error(
                target ~ ' follows the changes of ' ~ spec.source ~ ', which has no change data feed. Set tblproperties delta.enableChangeDataFeed: true where it is declared, or run '
                ~ "`alter table " ~ spec.source ~ " set tblproperties ('delta.enableChangeDataFeed' = 'true')`."
            ) }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- Names that a model's columns cannot have, since statements of the engine give them to columns of their own, or Spark and Delta to theirs. -#}
{% macro hw_reserved_columns(strategy) %}
    {{ return(
        ['_operation', '_row', '_copies', '_metadata', '_balance', '_side', '_net', '_stray', '_is_touched', '_change_type', '_commit_version', '_commit_timestamp']
        + {'signed_sum': ['_here', '_stays'], 'history': ['valid_from', 'valid_to', 'is_current', '_superseded', '_cut', '_until', '_next']}.get(strategy, ['_image'])
    ) }}
{% endmacro %}


{#- An input of signed() and images() gets a column from the macro. -#}
{% macro hw_check_input_columns(target, inputs) %}
    {%- for spec in inputs if spec.kind in ['signed', 'images'] -%}
        {%- set added = {'signed': '_weight', 'images': '_image'}[spec.kind] -%}
        {%- if added in hw_column_names(adapter.get_column_schema_from_query('select * from ' ~ spec.source)) -%}
            {{ exceptions.raise_compiler_error(target ~ ' reads ' ~ spec.source ~ ' with ' ~ spec.kind ~ '(), which adds the column ' ~ added ~ ', and it has one of that name. Rename it in a model between the two.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}


{#- An incremental run puts the rows that changed where the input is named. What meets itself, in a join or a subquery, would meet the changed rows
    alone, and not all of them. Branches of `union all` do not meet. -#}
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
        {{ exceptions.raise_compiler_error(where ~ ' reads ' ~ name ~ ', whose changes it follows, more than once. An incremental run would join the rows that changed with each other, and not with all '
            ~ 'rows. Use affected_keys, which computes whole keys anew.') }}
    {%- endfor -%}
{% endmacro %}


{#- Whether a strategy can keep a model up: by its text, before anything is read, and where the text does not tell, by some rows. -#}

{#- Where each row of the input makes its own rows of the model, where sums of weighed rows are all that is taken of them, or where no row of
    another key is looked at. Not asked where a lookup is read, which may well be summed up before it is joined. -#}
{% macro hw_check_linear(where, strategy, code, settings) %}
    {%- if strategy in ['affected_keys', 'history'] -%}
        {%- set found = modules.re.search('(?i)(?<![\\w.`])(over\\s*\\((?!\\s*(?:partition\\b|\\w+\\s*\\)))|window\\s+\\w+\\s+as\\s*\\((?!\\s*partition\\b)|(?:limit|offset)\\s+\\d+)', adapter.without_texts(code)) -%}
        {%- if found -%}
            {{ exceptions.raise_compiler_error(where ~ ' uses `' ~ found.group(1) ~ '`, whose result depends on rows of other keys, which are not computed anew. Partition by the key of '
                ~ ('affected()' if strategy == 'affected_keys' else 'the model') ~ ', or make it a table model.') }}
        {%- endif -%}
        {{ return('') }}
    {%- endif -%}
    {%- set refused = 'distinct(?!\\s+from)|having|limit(?=\\s+\\d)|offset(?=\\s+\\d)|over(?=\\s*\\()|intersect|union(?!\\s*all\\b)|except(?!\\s*\\(\\s*+(?!select\\b))|(?:count|avg|mean|min|max|first|last|any_value|median|collect_list|collect_set|array_agg|count_if|max_by|min_by|stddev|variance)(?=\\s*\\()' -%}
    {%- set refused = refused if strategy == 'signed_sum' else 'group\\s+by|(?:try_)?sum(?=\\s*\\()|' ~ refused -%}
    {%- set found = modules.re.search('(?i)(?<![\\w.`])(' ~ refused ~ ')(?![\\w`])', adapter.without_texts(code)) -%}
    {%- if found and strategy == 'change_feed' -%}
        {{ exceptions.raise_compiler_error(where ~ ' uses `' ~ found.group(1) ~ '`: a row of its result would depend on more than one row of the input. Use affected_keys, which computes whole keys anew'
            ~ (', or latest_by for the newest row of each key.' if not settings.get('latest_by') else '.')) }}
    {%- elif found -%}
        {{ exceptions.raise_compiler_error(where ~ ' uses `' ~ found.group(1) ~ '`, which cannot be kept up by adding. Sums of `… * _weight` and the count `sum(_weight)` can; averages go into derived; for the rest there is affected_keys.') }}
    {%- elif strategy == 'signed_sum' -%}
        {%- for sum in modules.re.finditer('(?i)\\b(?:try_)?sum\\s*\\(((?:[^()]|\\((?:[^()]|\\((?:[^()]|\\([^()]*\\))*\\))*\\))*)\\)', code) if not modules.re.search('(?<!\\w)_weight(?!\\w)', sum.group(1)) -%}
            {{ exceptions.raise_compiler_error(where ~ ' has sum(' ~ sum.group(1) | trim ~ ') without _weight, which would count rows that disappear as well. Write sum(' ~ sum.group(1) | trim ~ ' * _weight).') }}
        {%- endfor -%}
    {%- endif -%}
{% endmacro %}
