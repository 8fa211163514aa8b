{#- Replaces dbt-spark's incremental materialization. scripts/headwaters/runs/run.py runs the strategies that follow an
    input's change data feed. The others are dbt-spark's with corrections, in stock_strategies.sql. -#}
{% materialization incremental, adapter='headwaters', supported_languages=['sql', 'python'] %}
    {%- if model.language == 'python' and config.get('incremental_strategy') == 'auto' -%}
        {{ return(hw_replace_table()) }}
    {%- endif -%}
    {%- if not adapter.analysis.strategy_of(model.config) -%}
        {{ return(hw_run_stock_strategy(config.get('incremental_strategy') or 'append')) }}
    {%- endif -%}
    {%- set target = this.incorporate(type='table', is_delta=true) -%}
    {%- set run = adapter.runs.begin(context, target) -%}

    {%- if pre_hooks -%}
        {#- They may write to the model's inputs, and to its table. -#}
        {{ run_hooks(pre_hooks) }}
        {%- set run = adapter.runs.begin(context, target, after_hooks=true) -%}
    {%- endif -%}

    {%- set outcome = run.finish() -%}
    {%- do store_result('main', response=run.response(outcome)) -%}
    {%- if outcome.choice != 'skip' -%}
        {%- do apply_grants(target, config.get('grants'), should_revoke(run.existing, full_refresh_mode=outcome.replaced)) -%}
    {%- endif -%}
    {%- if outcome.replaced -%}
        {%- do persist_docs(target, model) -%}
        {%- do persist_constraints(target, model) -%}
    {%- endif -%}

    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmaterialization %}
