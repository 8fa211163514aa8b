{#- How a table differs from what is declared. `detail` is its row of DESCRIBE DETAIL. Returns a list of changes, each with sign (`+`, `~`, `-`),
    what, from and to; and one of set (a property), unset (a property), sql (a clause after ALTER TABLE) or rewrite. A change without
    a sign is bookkeeping. What Delta sets by itself, and what others set, is no drift. -#}
{% macro hw_drift(declared, detail) %}
    {%- set held = dict(hw_as_mapping(detail['properties'])) -%}
    {%- set ours = (held.get('headwaters.declared') or '').split(', ') -%}
    {%- do held.update({'delta.minReaderVersion': detail['minReaderVersion'], 'delta.minWriterVersion': detail['minWriterVersion']}) -%}
    {%- for feature in hw_as_names(detail['tableFeatures']) -%}{%- do held.update({'delta.feature.' ~ feature: 'supported'}) -%}{%- endfor -%}
    {%- set changes = [] -%}
    {%- for name, value in declared.properties.items() | sort -%}
        {%- if name not in held -%}
            {%- do changes.append({'sign': '+', 'what': name, 'from': none, 'to': value, 'set': name}) -%}
        {%- elif not hw_same_value(name, held[name], value) and not (name in ['delta.minReaderVersion', 'delta.minWriterVersion'] and held[name] | int >= value | int) -%}
            {%- do changes.append({'sign': '~', 'what': name, 'from': held[name], 'to': value, 'set': name}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for name in ours | sort if name in held and name not in declared.properties and not name.startswith('delta.constraints.') -%}
        {%- do changes.append({'sign': '-', 'what': name, 'from': held[name], 'to': none, 'unset': name}) -%}
    {%- endfor -%}
    {%- do changes.extend(hw_constraint_drift(declared.checks, held, ours)) -%}
    {%- set clustered = hw_as_names(detail['clusteringColumns']) -%}
    {%- set partitioned = hw_as_names(detail['partitionColumns']) -%}
    {%- if partitioned != declared.partition_by and declared.kind != 'source' or (declared.partition_by and partitioned != declared.partition_by) -%}
        {%- if clustered and declared.partition_by -%}
            {{ exceptions.raise_compiler_error(declared.name ~ ' is clustered, and Delta does not partition a clustered table: declare cluster_by: ' ~ declared.partition_by
                ~ ' instead, which reads as well, or drop the table and build it anew. Nothing was changed.') }}
        {%- endif -%}
        {%- do changes.append({'sign': '~' if partitioned and declared.partition_by else '+' if declared.partition_by else '-', 'what': 'partitioned by', 'rewrite': true,
            'from': partitioned | join(', ') or none, 'to': declared.partition_by | join(', ') or none}) -%}
    {%- elif clustered != declared.cluster_by and (declared.kind != 'source' or declared.cluster_by) -%}
        {%- do changes.append({'sign': '~' if clustered and declared.cluster_by else '+' if declared.cluster_by else '-', 'what': 'clustered by',
            'from': clustered | join(', ') or none, 'to': declared.cluster_by | join(', ') or none,
            'sql': hw_cluster_by(declared.cluster_by), 'back': hw_cluster_by(clustered)}) -%}
    {%- endif -%}
    {%- if declared.comment is not none and declared.comment != (detail['description'] or '') -%}
        {%- do changes.append({'sign': '~' if detail['description'] else '+', 'what': 'comment', 'from': detail['description'], 'to': declared.comment, 'set': 'comment'}) -%}
    {%- endif -%}
    {%- set names = hw_declared_names(declared) -%}
    {%- if (held.get('headwaters.declared') or '') != names -%}
        {%- do changes.append({'sign': none, 'what': 'headwaters.declared', 'from': held.get('headwaters.declared'), 'to': names, 'set': 'headwaters.declared'}) -%}
    {%- endif -%}
    {{ return(changes) }}
{% endmacro %}


{% macro hw_declared_names(declared) %}
    {%- set names = declared.properties | list -%}
    {%- for name in declared.checks -%}{%- do names.append('delta.constraints.' ~ name | lower) -%}{%- endfor -%}
    {{ return(names | sort | join(', ')) }}
{% endmacro %}


{#- Delta keeps a check under a property of its own, in lower case, and writes its expression anew: spaces and brackets tell nothing. -#}
{% macro hw_constraint_drift(checks, held, ours) %}
    {%- set changes = [] -%}
    {%- set declared = [] -%}
    {%- for name, expression in checks.items() -%}
        {%- set property = 'delta.constraints.' ~ name | lower -%}
        {%- do declared.append(property) -%}
        {%- set add = 'add constraint ' ~ hw_quote(name) ~ ' check (' ~ expression ~ ')' -%}
        {%- if property not in held -%}
            {%- do changes.append({'sign': '+', 'what': 'constraint ' ~ name, 'from': none, 'to': expression, 'sql': add}) -%}
        {%- elif hw_bare_expression(held[property]) != hw_bare_expression(expression) -%}
            {%- do changes.append({'sign': '~', 'what': 'constraint ' ~ name, 'from': held[property], 'to': expression, 'sql': 'drop constraint ' ~ hw_quote(name), 'then': add}) -%}
        {%- endif -%}
    {%- endfor -%}
    {%- for property in ours if property in held and property.startswith('delta.constraints.') and property not in declared -%}
        {%- set name = property.removeprefix('delta.constraints.') -%}
        {%- do changes.append({'sign': '-', 'what': 'constraint ' ~ name, 'from': held[property], 'to': none, 'sql': 'drop constraint ' ~ hw_quote(name)}) -%}
    {%- endfor -%}
    {{ return(changes) }}
{% endmacro %}


{#- Without what is the same to Spark: case, spaces, brackets; the texts in it are kept. -#}
{% macro hw_bare_expression(expression) %}
    {%- set parts = [] -%}
    {%- for part in modules.re.findall("'(?:[^'\\\\]|\\\\.)*'|[^']+|'", expression) -%}
        {%- do parts.append(part if part.startswith("'") else modules.re.sub('[\\s()`]', '', part | lower)) -%}
    {%- endfor -%}
    {{ return(parts | join) }}
{% endmacro %}


{% macro hw_cluster_by(columns) %}
    {{ return('cluster by ' ~ ('(' ~ hw_quoted(columns) | join(', ') ~ ')' if columns else 'none')) }}
{% endmacro %}


{#- Columns whose comment is not their description; of one without a description, any comment is right. -#}
{% macro hw_comment_drift(relation, columns) %}
    {%- set described = {} -%}
    {%- for name, column in columns.items() if column.description -%}{%- do described.update({name | lower: column.description}) -%}{%- endfor -%}
    {%- set changes = [] -%}
    {%- if described -%}
        {%- set seen = [] -%}
        {%- for row in run_query('describe table ' ~ relation).rows -%}
            {#- a partition column is listed a second time, below the others -#}
            {%- set comment = described.get(row['col_name'] | lower) if row['col_name'] not in seen else none -%}
            {%- do seen.append(row['col_name']) -%}
            {%- if comment and comment != row['comment'] -%}
                {%- do changes.append({'sign': '~' if row['comment'] else '+', 'what': 'comment of ' ~ row['col_name'], 'from': row['comment'] or none, 'to': comment, 'column': row['col_name']}) -%}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
    {{ return(changes) }}
{% endmacro %}


{#- The ALTER TABLE statements for a list of changes: one sets all properties, one unsets, one sets all comments of columns, one for each of the rest. -#}
{% macro hw_drift_sql(relation, changes) %}
    {%- set statements = [] -%}
    {%- set assigned = {} -%}
    {%- set unset = [] -%}
    {%- set comments = [] -%}
    {%- for change in changes -%}
        {%- if change.column -%}{%- do comments.append(hw_quote(change.column) ~ ' comment ' ~ hw_literal(change.to or '')) -%}
        {%- elif change.set -%}{%- do assigned.update({change.set: change.to}) -%}
        {%- elif change.unset -%}{%- do unset.append(hw_literal(change.unset)) -%}
        {%- elif change.sql -%}
            {%- do statements.append('alter table ' ~ relation ~ ' ' ~ change.sql) -%}
            {%- if change.then -%}{%- do statements.append('alter table ' ~ relation ~ ' ' ~ change.then) -%}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {%- if comments -%}
        {%- do statements.append('alter table ' ~ relation ~ ' alter column ' ~ comments | join(', ')) -%}
    {%- endif -%}
    {%- if unset -%}
        {%- do statements.append('alter table ' ~ relation ~ ' unset tblproperties if exists (' ~ unset | join(', ') ~ ')') -%}
    {%- endif -%}
    {%- if assigned -%}
        {%- do statements.append(hw_set_properties_sql(relation, assigned)) -%}
    {%- endif -%}
    {{ return(statements) }}
{% endmacro %}


{#- The changes that lead back: what `hw_drift_sql` of them gives is the undo. -#}
{% macro hw_drift_back(changes) %}
    {%- set back = [] -%}
    {%- for change in changes if not change.rewrite -%}
        {%- if change.set or change.unset -%}
            {%- set name = change.set or change.unset -%}
            {%- do back.append({'set': name, 'to': change.from} if change.from is not none else {'unset': name}) -%}
        {%- elif change.column -%}
            {%- do back.append({'column': change.column, 'to': change.from}) -%}
        {%- elif change.back -%}
            {%- do back.append({'sql': change.back}) -%}
        {%- else -%}
            {%- set name = hw_quote(change.what.removeprefix('constraint ')) -%}
            {%- if change.to is not none -%}{%- do back.append({'sql': 'drop constraint ' ~ name}) -%}{%- endif -%}
            {%- if change.from is not none -%}{%- do back.append({'sql': 'add constraint ' ~ name ~ ' check (' ~ change.from ~ ')'}) -%}{%- endif -%}
        {%- endif -%}
    {%- endfor -%}
    {{ return(back) }}
{% endmacro %}


{#- One line for each change, as a plan shows it. -#}
{% macro hw_drift_lines(changes) %}
    {%- set lines = [] -%}
    {%- for change in changes if change.sign -%}
        {%- set value = change.to if change.sign == '+' else change.from if change.sign == '-' else change.from ~ ' -> ' ~ change.to -%}
        {%- do lines.append('  ' ~ change.sign ~ ' ' ~ change.what ~ ': ' ~ value ~ (' (rewrites the table)' if change.rewrite else '')) -%}
    {%- endfor -%}
    {{ return(lines) }}
{% endmacro %}


{#- Brings a model's table to what is declared, before a run writes to it; nothing is sent where nothing differs. -#}
{% macro hw_reconcile_table(relation, detail) %}
    {%- set changes = hw_drift(hw_declared_table(model), detail) | rejectattr('rewrite') | list -%}
    {%- for statement in hw_drift_sql(relation, changes) -%}
        {%- do run_query(statement) -%}
    {%- endfor -%}
    {%- if changes | selectattr('sign') | list -%}
        {%- do log(relation ~ ' was brought to what is declared:\n' ~ hw_drift_lines(changes) | join('\n'), info=true) -%}
    {%- endif -%}
{% endmacro %}
