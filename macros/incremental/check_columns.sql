{#- Columns that the configuration names and the model's SQL does not give; columns that cannot be compared; and inputs
    without a change feed. Checked where a table is replaced. -#}
{% macro hw_check_columns(target, sql, columns, inputs, settings) %}
    {%- set wanted = {} -%}
    {%- for setting in ['unique_key', 'latest_by', 'prune_by'] -%}
        {%- do wanted.update({setting: hw_as_list(settings.get(setting))}) -%}
    {%- endfor -%}
    {%- do wanted.update(hw_hook(adapter.strategy_of(settings), 'named_columns')(sql)) -%}
    {%- for spec in inputs if spec.kind == 'affected' and spec.key -%}
        {%- do wanted.update({'key of affected(' ~ spec.source ~ ')': spec.key | list}) -%}
    {%- endfor -%}
    {%- do hw_check_names_and_types(target, columns, settings) -%}
    {%- set names = hw_column_names(columns) -%}
    {%- for setting, named in wanted.items() -%}
        {%- for column in named if column | lower not in names -%}
            {{ hw_raise('NO_SUCH_COLUMN', target ~ ': ' ~ setting ~ ' names the column ' ~ column
                ~ ', which the model does not have. It has '
                ~ columns | map(attribute='name') | join(', ') ~ '.') }}
        {%- endfor -%}
    {%- endfor -%}
    {%- for spec in inputs if spec.kind != 'lookup' and spec.version is not none -%}
        {%- do hw_check_feed(target, spec) -%}
    {%- endfor -%}
{% endmacro %}


{#- Names that a model's columns cannot have, since statements of the engine give them to columns of their own, or Spark
    and Delta to theirs; and types. -#}
{% macro hw_check_names_and_types(target, columns, settings) %}
    {%- set reserved = ['_operation', '_row', '_copies', '_metadata', '_balance', '_side', '_net', '_stray', '_is_touched', '_replaced'] -%}
    {#- Delta takes the alias of a target for a column of that name -#}
    {%- set reserved = reserved + ['_target', '_staged'] -%}
    {%- set reserved = reserved + ['_change_type', '_commit_version', '_commit_timestamp'] + adapter.strategy_of(settings).reserved
        | list -%}
    {%- set taken = [] -%}
    {%- for column in columns if column.name | lower in reserved or modules.re.fullmatch('(?i)_before_\\d+', column.name) -%}
        {%- do taken.append(column.name) -%}
    {%- endfor -%}
    {%- if taken -%}
        {{ hw_raise('RESERVED_COLUMN', target ~ ': the engine uses the name ' ~ taken | join(', ') ~ ' itself. Give the column another '
            ~ 'one, as in `' ~ adapter.quote(taken[0]) ~ ' as ' ~ (taken[0].strip('_') or 'value') ~ '`.') }}
    {%- endif -%}
    {%- for column in columns if column.dtype.startswith('char') -%}
        {{ hw_raise('CHAR_COLUMN', target ~ ': ' ~ column.name ~ ' is a ' ~ column.dtype ~ ', and Delta cannot merge into a table '
            ~ 'that has one. Select cast(' ~ adapter.quote(column.name) ~ ' as string) as ' ~ adapter.quote(column.name) ~ '.') }}
    {%- endfor -%}
    {%- for column in columns if modules.re.search('\\bcollate\\b', column.dtype) and not hw_has_key(settings)
        and adapter.strategy_of(settings).may_lack_key -%}
        {{ hw_raise('NOT_COMPARABLE', target ~ ': ' ~ column.name ~ ' is a ' ~ column.dtype ~ ', of which values that differ are '
            ~ 'equal, so it cannot tell rows apart. Name a unique_key.') }}
    {%- endfor -%}
    {%- for column in columns if modules.re.search('\\b(map<|variant\\b)', column.dtype) -%}
        {{ hw_raise('NOT_COMPARABLE', target ~ ': ' ~ column.name ~ ' is a ' ~ column.dtype ~ ', and Spark cannot say whether '
            ~ 'two of those are the same. '
            ~ 'Select map_entries(…) or to_json(…) of it.') }}
    {%- endfor -%}
{% endmacro %}


{% macro hw_check_feed(target, spec) %}
    {%- if not hw_has_feed(spec.source) -%}
        {{ hw_raise('NO_CHANGE_FEED', target ~ ' follows the changes of ' ~ spec.source ~ ', which has no change data feed. '
            ~ 'Set tblproperties '
            ~ 'delta.enableChangeDataFeed: true where it is declared, or run `alter table ' ~ spec.source
            ~ " set tblproperties ('delta.enableChangeDataFeed' = 'true')`.") }}
    {%- endif -%}
{% endmacro %}


{% macro hw_has_feed(source) %}
    {{ return((hw_properties_of(source).get('delta.enableChangeDataFeed', 'false') | lower) == 'true') }}
{% endmacro %}


{#- An input of signed() and images() gets a column from the macro. -#}
{% macro hw_check_input_columns(target, inputs) %}
    {%- for spec in inputs if spec.kind in ['signed', 'images'] -%}
        {%- set added = {'signed': '_weight', 'images': '_image'}[spec.kind] -%}
        {%- if added in hw_column_names(adapter.get_column_schema_from_query('select * from ' ~ spec.source)) -%}
            {{ hw_raise('RESERVED_COLUMN', target ~ ' reads ' ~ spec.source ~ ' with ' ~ spec.kind ~ '(), which adds the column ' ~ added
                ~ ', and it has one of that name. Rename it in a model between the two.') }}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
