{#- What a strategy is made of: the hooks in strategies/<name>.sql, `hw_<name>__<hook>`. The list of strategies, and what is
    the same for several of them, is scripts/headwaters/incremental/strategies.py. A hook that a strategy does not have is that of
    the strategy which it is a way of, or the one of strategies/default.sql. No hook runs a statement, unless it says so.

    full_refresh_sql(sql, settings, columns)
        SQL of the whole table; columns: what the model's SQL gives
    change_set_sql(target, sql, plan, settings, columns, bounds)
        what an incremental run changes in the target: the target's columns and `_operation` (`insert`, `update` or `delete`),
        one row a key; columns: the target's
    changed_rows_sql(spec, range)
        every changed row of an input, to try the SQL with
    share_changed(relation, sql, plan, settings)
        how much of a full refresh an incremental run would do again: part, whole, what (their name), and above, the share above
        which a replacement is cheaper; or gap
    check(where, sql, inputs, settings)
        refuses models that the strategy cannot maintain, by their text
    tried_rows(inputs, settings)
        the input whose rows a model is tried with before it builds its first table (`spec`), and `half`, by which they are
        divided; none where there is nothing to try
    differences_sql(sql, inputs, spec, settings, columns, sample), difference_text(target, spec, name)
        one row; each column that is not 0 or false is a reason to refuse, which the text gives
    facts_before_staging(target, sql, plan, settings)
        what is asked, and stored, before the change set is staged, `plan.facts` from then on: bounds, same_columns, gap; `known_keys`, SQL
        of the affected keys that reads no change feed, or `sums`, of the sums of changed rows; `of_rows` where these are of rows that the
        SQL gives, which another SQL might not give. May run statements
    inspect(target, stage, keys, look, sql, settings), before_replace(target, plan, settings)
        refuse what may not be written
    named_columns(sql)
        columns that the SQL names for the engine and must give: what names them, and a list
    state_properties(inputs)
        what else the table says of itself -#}

{% macro hw_hook(strategy, name) %}
    {%- set own = context.get('hw_' ~ strategy.name ~ '__' ~ name) -%}
    {{ return(own or context.get('hw_' ~ strategy.configured_as ~ '__' ~ name) or context['hw_default__' ~ name]) }}
{% endmacro %}


{% macro hw_full_refresh_sql(strategy, sql, settings, columns) %}
    {{ return(hw_hook(strategy, 'full_refresh_sql')(sql, settings, columns)) }}
{% endmacro %}


{% macro hw_change_set_sql(strategy, target, sql, plan, settings, columns, bounds) %}
    {{ return(hw_hook(strategy, 'change_set_sql')(target, sql, plan, settings, columns, bounds)) }}
{% endmacro %}


{#- The one input that the strategy follows. -#}
{% macro hw_followed_input(inputs) %}
    {{ return(inputs | rejectattr('kind', 'equalto', 'lookup') | first) }}
{% endmacro %}
