{#- Lists the places that may have a person: tables with columns of the kind, and every place with text in a table. -#}

{#- Reads `{account_id: {env: SUBJECT}}`: the kind of personal data that columns declare (`meta.pii`), the columns of this kind, and the
    erasure, which has the value. -#}
{% macro hw_subject_of_erasure(subject) %}
    {%- set kinds = {} -%}
    {%- for node in hw_nodes_of_tables() -%}
        {%- for column in node.columns.values() if hw_pii(column) and hw_pii(column) != 'none' -%}
            {%- do kinds.update({hw_pii(column): (kinds.get(hw_pii(column), []) + [column.name]) | unique | list}) -%}
        {%- endfor -%}
    {%- endfor -%}
    {%- if subject is not mapping or subject | length != 1 -%}
        {{ hw_raise('HW_SUBJECT', 'erase: subject must name one column or kind, and where its value is, such as '
            ~ '{account_id: {env: SUBJECT}}. Kinds of personal data: ' ~ kinds | sort | join(', ') ~ '.') }}
    {%- endif -%}
    {%- set given = subject | first -%}
    {%- set found = [] -%}
    {%- for kind, columns in kinds.items() if given == kind or given in columns -%}{%- do found.append(kind) -%}{%- endfor -%}
    {%- if found | length != 1 -%}
        {{ hw_raise('HW_SUBJECT', 'erase: ' ~ tojson(given) ~ ' '
            ~ ('is the name of columns of ' ~ found | sort | join(' and of ') ~ ': name the kind' if found
            else 'is no kind of personal data and no column of one')
            ~ '. Columns declare theirs in meta.pii: ' ~ kinds | sort | join(', ') ~ '. Nothing was changed.') }}
    {%- endif -%}
    {{ return({'kind': found[0], 'columns': kinds[found[0]],
        'erasure': adapter.erasure(found[0], given, subject[given], kinds[found[0]])}) }}
{% endmacro %}


{#- Omits the schema `ops` of the adapter's package: `hw_mentions_in_ops` searches it. -#}
{% macro hw_nodes_of_tables() %}
    {{ return(graph.nodes.values() | list + graph.sources.values() | rejectattr('package_name', 'equalto', 'dbt_headwaters') | list) }}
{% endmacro %}


{% macro hw_pii(column) %}
    {{ return((column.get('config') or {}).get('meta', {}).get('pii') or (column.get('meta') or {}).get('pii')) }}
{% endmacro %}


{#- Lists every table that may have the person: see _place. The columns come from the tables, and their contents from YAML. -#}
{% macro hw_places_of(wanted) %}
    {%- set nodes = {} -%}
    {%- set names = wanted.columns | map('lower') | list -%}
    {%- for node in hw_nodes_of_tables() -%}
        {%- set said = {} -%}
        {%- for column in node.columns.values() -%}{%- do said.update({column.name | lower: hw_pii(column)}) -%}{%- endfor -%}
        {%- do nodes.update({node.schema ~ '.' ~ (node.identifier or node.alias): {'node': node, 'said': said}}) -%}
    {%- endfor -%}
    {%- set places = [] -%}
    {%- set undeclared = [] -%}
    {%- set schemas = run_query('show schemas').columns[0].values() -%}
    {%- for name, its in nodes.items() -%}
        {%- set relation = hw_delta_table(its.node.schema, its.node.identifier or its.node.alias, its.node, schemas) -%}
        {%- set held = hw_columns_of_table(relation) if relation else dict.fromkeys(its.said, '') -%}
        {%- for column in held if column | lower in names and not its.said.get(column | lower) -%}
            {%- do undeclared.append(its.node.name ~ '.' ~ column) -%}
        {%- endfor -%}
        {%- set place = hw_place(name, relation, held, its, wanted, names) if relation -%}
        {%- if place and place.columns + place.structs -%}{%- do places.append(place) -%}{%- endif -%}
        {#- of a stream, or of a model's expectations -#}
        {%- if wanted.kind in its.said.values() -%}
            {%- set quarantine = hw_delta_table(its.node.schema, (its.node.identifier or its.node.alias) ~ '_quarantine', its.node,
                schemas) -%}
            {%- if quarantine -%}
                {%- do places.append(hw_place(name ~ '_quarantine', quarantine, hw_columns_of_table(quarantine), its, wanted, [])) -%}
            {%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if undeclared -%}
        {{ hw_raise('HW_UNDECLARED_PERSONAL_DATA', 'erase: ' ~ undeclared | join(', ') ~ ' has the name of a column with personal data ('
            ~ wanted.kind ~ ') and does not say whether it holds any: declare `pii: ' ~ wanted.kind ~ "` in the column's `config: meta:`, "
            ~ 'or `pii: none`. Nothing was changed.') }}
    {%- endif -%}
    {%- do places.extend(hw_places_of_copies(nodes, wanted, names)) -%}
    {{ return(places | sort(attribute='name')) }}
{% endmacro %}


{#- Lists copies, and tables that `drop` renamed, whose original may be gone from the project. -#}
{% macro hw_places_of_copies(nodes, wanted, names) %}
    {%- set places = [] -%}
    {%- for backup in hw_backups() -%}
        {%- set its = nodes.get(backup.of) or nodes.get(backup.of.removesuffix('_quarantine')) or {'node': none, 'said': {}} -%}
        {%- set held = hw_columns_of_table(backup.relation) -%}
        {%- set place = hw_place(backup.name, backup.relation, held, its, wanted, names) -%}
        {%- if place.columns + place.structs or 'record' in held -%}{%- do places.append(dict(place, follows=false)) -%}{%- endif -%}
    {%- endfor -%}
    {{ return(places) }}
{% endmacro %}


{#- Returns a Delta table's name for a statement: its path, if dbt has not registered a stream's table yet, or none
    without a table. `schemas`: all existing schemas. -#}
{% macro hw_delta_table(schema, identifier, node, schemas) %}
    {%- set table = adapter.get_relation(none, schema, identifier) if schema in schemas else none -%}
    {%- if table is not none -%}
        {{ return(hw_named(table) if table.is_delta else none) }}
    {%- elif node.resource_type == 'source' and adapter.nodes.setting(node.config, 'stream') -%}
        {%- set warehouse = run_query('set spark.sql.warehouse.dir').rows[0]['value'] -%}
        {%- set path = 'delta.' ~ hw_quote(warehouse ~ '/' ~ schema ~ '.db/' ~ identifier) -%}
        {{ return(path if adapter.failure_of('describe detail ' ~ path) is none else none) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{#- Returns name, relation, node; columns (of the kind, compared as a whole), structs (of the kind, with fields), texts (searched by
    decoding; see Form in scripts/headwaters/tables/erasure.py), follows (true if a run propagates the deletion).
    `names`: all columns of the kind, for copies without declarations. -#}
{% macro hw_place(name, relation, held, its, wanted, names) %}
    {%- set columns = [] -%}
    {%- set structs = [] -%}
    {%- for column, type in held.items() if (its.said.get(column | lower)
        or (wanted.kind if not its.node and column | lower in names)) == wanted.kind -%}
        {%- do (structs if modules.re.match('struct|array|map|variant', type) else columns).append(column) -%}
    {%- endfor -%}
    {%- set node = its.node -%}
    {{ return({
        'name': name, 'relation': relation, 'node': node, 'said': its.said, 'columns': columns, 'structs': structs,
        'texts': hw_texts(held, structs, its, wanted),
        'follows': node is not none and node.resource_type == 'model' and not name.endswith('_quarantine')
            and (node.config.materialized == 'table'
                or (adapter.analysis.strategy_of(node.config) and not adapter.analysis.strategy_of(node.config).keeps_past)),
    }) }}
{% endmacro %}


{#- Lists the texts of a table: the original record (record), undeclared fields (_rescued), Kafka's keys and headers, names of files. Each
    has column, sql (as binary), form, others (fields that are declared to hold something else), columns and options (of CSV). -#}
{% macro hw_texts(held, structs, its, wanted) %}
    {%- set stream = (adapter.nodes.setting(its.node.config, 'stream') or {}) if its.node else {} -%}
    {%- set others = [] -%}
    {%- for column, pii in its.said.items() if pii != wanted.kind -%}{%- do others.append(column) -%}{%- endfor -%}
    {%- set csv = stream.get('format') == 'csv' -%}
    {%- set read = [] -%}
    {%- for column in (its.node.columns.values() if csv else [])
        if not ((column.get('config') or {}).get('meta') or {}).get('expression') -%}
        {%- do read.append(column.name) -%}
    {%- endfor -%}
    {%- set forms = {
        'record': {'form': 'csv' if csv else 'any', 'others': others, 'columns': read, 'options': stream.get('options') or {}},
        '_rescued': {'form': 'json', 'others': others}, '_key': {'form': 'key'}, '_source_file': {'form': 'path'},
    } -%}
    {%- set texts = [] -%}
    {%- for column, form in forms.items() if column in held -%}
        {%- do texts.append(dict(form, column=column, sql='cast(' ~ hw_quote(column) ~ ' as binary)')) -%}
    {%- endfor -%}
    {%- if '_headers' in held -%}
        {%- do texts.append({'column': '_headers', 'form': 'json', 'sql': 'cast(to_json(transform(`_headers`, h -> '
            ~ 'struct(h.key as k, cast(h.value as string) as v))) as binary)'}) -%}
    {%- endif -%}
    {%- for column in structs -%}
        {%- do texts.append({'column': column, 'form': 'json', 'sql': 'cast(to_json(' ~ hw_quote(column) ~ ') as binary)'}) -%}
    {%- endfor -%}
    {{ return(texts) }}
{% endmacro %}


{#- Returns a condition that is true if a row has the value in one of its columns; `value` is SQL. -#}
{% macro hw_has_value(columns, value) %}
    {%- set conditions = [] -%}
    {%- for column in columns -%}{%- do conditions.append('cast(' ~ hw_quote(column) ~ ' as string) = ' ~ value) -%}{%- endfor -%}
    {{ return(conditions | join(' or ') or 'false') }}
{% endmacro %}


{#- An interrupted batch or replay would write its records after they were erased. -#}
{% macro hw_refuse_interrupted_streams(places, wanted) %}
    {%- set streams = [] -%}
    {%- for place in places if place.node and place.node.resource_type == 'source'
        and adapter.nodes.setting(place.node.config, 'stream') -%}
        {%- do streams.append(place.node.name) -%}
    {%- endfor -%}
    {%- set problem = wanted.erasure.interrupted(streams | unique | list) -%}
    {%- if problem -%}{{ hw_raise('HW_INTERRUPTED_STREAM', 'erase: ' ~ problem ~ '. Nothing was changed.') }}{%- endif -%}
{% endmacro %}


{#- Searches places outside of the project's Delta tables that may have the person, for each plan and proof. Returns found (lines: places to
    clean) and lines (the places that were searched or left out). -#}
{% macro hw_files_beside_tables(places, wanted, names) %}
    {%- set landings = {} -%}
    {%- set unread = [] -%}
    {%- for source in graph.sources.values() if adapter.nodes.setting(source.config, 'stream') -%}
        {%- set stream = adapter.nodes.setting(source.config, 'stream') -%}
        {%- set its = places | selectattr('node', 'equalto', source) | list -%}
        {%- if not its -%}{%- do unread.append('the stream ' ~ source.name ~ ', which declares no ' ~ wanted.kind) -%}
        {%- elif stream.get('from') == 'kafka' -%}
            {%- do unread.append('the Kafka topic ' ~ hw_as_list(stream.get('topics')) | join(', ')) -%}
        {%- elif stream.get('from') == 'files' -%}
            {%- do landings.update({stream.get('path')
                | string: hw_texts({'record': 'binary'}, [], {'node': source, 'said': its[0].said}, wanted)[0]}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- set beside = wanted.erasure.beside(landings) -%}
    {%- set found = beside.found + hw_mentions_in_ops(wanted) -%}
    {%- set lines = [] -%}
    {%- for one in found -%}{%- do lines.append('  ! ' ~ one) -%}{%- endfor -%}
    {%- for stage in hw_staged(places, names) -%}
        {%- do found.append(stage.name) -%}
        {%- do lines.append('  ! ' ~ stage.name ~ ': ' ~ stage.rows ~ ' rows that a run staged, which was interrupted or is '
            ~ 'still running; a `dbt run` on a later day drops it') -%}
    {%- endfor -%}
    {%- do unread.extend(beside.unread) -%}
    {%- do unread.append('tables that the project does not declare, pages of reviews and reports elsewhere, '
        ~ 'schemas of other targets, copies outside the lake') -%}
    {%- do lines.extend(['  also searched: ' ~ beside.searched ~ ' files of landing folders, checkpoints, logs, artifacts and pages',
        '  not searched: ' ~ unread | join('; ')]) -%}
    {{ return({'found': found, 'lines': lines}) }}
{% endmacro %}


{#- Finds rows of the ledger of operations that name the person: a predicate of delete_where, for example. -#}
{% macro hw_mentions_in_ops(wanted) %}
    {%- if adapter.get_relation(none, hw_ops_schema(), 'operations') is none -%}{{ return([]) }}{%- endif -%}
    {%- set rows = wanted.erasure.spoken_of_in(hw_ops_name('operations'), ['reason', 'arguments', 'undo'], 'operation_id') -%}
    {{ return(["ops.operations: " ~ rows | length ~ " operations name it: delete_where with operation_id in ('" ~ rows | join("', '")
        ~ "')"] if rows else []) }}
{% endmacro %}


{#- Finds staging tables of killed or current runs that have the person: name and rows. -#}
{% macro hw_staged(places, names) %}
    {%- set found = [] -%}
    {%- set known = run_query('show schemas').columns[0].values() -%}
    {%- for schema in hw_nodes_of_tables() | map(attribute='schema') | unique | sort if schema in known -%}
        {%- for identifier in hw_tables_in(schema) if modules.re.search('__stage_\\d{12}_', identifier) -%}
            {%- set relation = hw_quoted_name(schema, identifier) -%}
            {%- set columns = hw_columns_of_table(relation) | select('in', names) | list -%}
            {%- set condition = hw_has_value(columns, '(select _headwaters_value from headwaters_erased)') -%}
            {%- set rows = run_query('select count(*) as rows from ' ~ relation ~ ' where ' ~ condition).rows[0]['rows'] | int -%}
            {%- if rows -%}{%- do found.append({'name': schema ~ '.' ~ identifier, 'rows': rows}) -%}{%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
    {{ return(found) }}
{% endmacro %}


{#- Drops the hidden tables that have the person, in a row, a file or their log: their columns declare nothing, and the next run builds them
    again. Adds lines to `beside`, and remaining places to `found`. -#}
{% macro hw_drop_hidden_tables_with(wanted, keep, beside, reason, dry_run) %}
    {%- set known = run_query('show schemas').columns[0].values() -%}
    {%- for schema in hw_nodes_of_tables() | map(attribute='schema') | unique | sort if schema in known -%}
        {%- for hidden in hw_hidden_tables_in(schema) -%}
            {%- set name = schema ~ '.' ~ hidden.identifier -%}
            {%- set detail = run_query('describe detail ' ~ hidden.relation).rows[0] -%}
            {%- set columns = hw_columns_of_table(hidden.relation) | list -%}
            {%- set files = wanted.erasure.data_files(detail['location'], columns, [], keep).found -%}
            {%- set logs = wanted.erasure.log_files(detail['location'], columns, [], 32).found -%}
            {%- if files or logs -%}
                {%- set is_gone = not dry_run and hw_drop_erased_table(name, hidden, detail, wanted, reason) -%}
                {%- do beside.lines.append('  ' ~ ('-' if is_gone else '!') ~ ' ' ~ name ~ ': a hidden table, the value is in ' ~ files
                    ~ ' of its files and ' ~ logs ~ ' of its log; ' ~ ('dropped with its files' if is_gone
                    else 'dry_run: false drops it' if dry_run else 'dropped, and its files are still there: ' ~ detail['location'])
                    ~ ', a `dbt run` builds it again') -%}
                {%- if not is_gone -%}{%- do beside.found.append(name) -%}{%- endif -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endfor -%}
{% endmacro %}


{#- Returns true if the table's folder is empty or gone. -#}
{% macro hw_drop_erased_table(name, hidden, detail, wanted, reason) %}
    {%- set record = hw_begin_operation('erase', name, reason,
        {'subject': wanted.kind, 'keyed_hash': wanted.erasure.digest(true), 'step': 'hidden table'},
        hw_newest_commit(hidden.relation).version, detail, none) -%}
    {%- do run_query('drop table ' ~ hidden.relation) -%}
    {%- do hw_finish_operation(record, none) -%}
    {%- set failure = adapter.failure_of('select path from binaryFile.' ~ hw_quote(detail['location']) ~ ' limit 1') -%}
    {{ return('PATH_NOT_FOUND' in (failure or '')) }}
{% endmacro %}
