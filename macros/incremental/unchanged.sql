{#- Models for which an earlier run found nothing to do, and whose tables are as they were then, are not planned again:
    scripts/headwaters/incremental/unchanged.py. -#}

{#- Stands for what a run of the model is planned from but for tables; none where it has to be planned. Asked before settings are
    derived. What warns at each run is planned at each run. -#}
{% macro hw_digest_of_run(exists) %}
    {%- if exists and not (flags.EMPTY or flags.SAMPLE or should_full_refresh() or var('headwaters_pins', {}) or pre_hooks
        or model.config.get('incremental_proof') == 'sample') -%}
        {{ return(adapter.digest_of_run(model, hw_without_versions(compiled_code), graph)) }}
    {%- endif -%}
    {{ return(none) }}
{% endmacro %}


{% macro hw_leave_unchanged(target) %}
    {%- do hw_drop_released() -%}
    {%- do store_result('main', response=adapter.run_response('no changes', 'skip', rows_affected=0)) -%}
    {{ run_hooks(post_hooks) }}
    {{ return({'relations': [target]}) }}
{% endmacro %}


{#- Notes that there was nothing to do. A view under an input has no commits, and hidden tables are planned for by their model. -#}
{% macro hw_note_unchanged(target, plan) %}
    {%- if plan.digest and plan.seen and not plan.foreign and not model.config.get('stages') and '/* view ' not in model.compiled_code -%}
        {%- do adapter.note_unchanged(model.unique_id, plan.digest, dict(hw_versions_json(plan.inputs), **{target | string: plan.seen})) -%}
    {%- endif -%}
{% endmacro %}


{#- At the end of an invocation: keeps in `target/` what was noted. -#}
{% macro hw_keep_unchanged() %}
    {%- if execute and flags.WHICH in ['run', 'build', 'retry'] -%}{%- do adapter.keep_unchanged() -%}{%- endif -%}
{% endmacro %}
