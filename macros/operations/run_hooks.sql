{#- Replaces dbt's run_hooks(). Spark has no transactions, so hooks outside of one (`before_begin`, `after_commit`,
    `transaction: false`) need no `commit`, which Spark refuses. They run before the others, or after them as post-hooks.
    dbt-spark's materializations ask for the hooks of a transaction alone, and skipped the others. -#}
{% macro run_hooks(hooks, inside_transaction=True) %}
    {%- set inside = hooks | selectattr('transaction') | list -%}
    {%- set outside = hooks | rejectattr('transaction') | list -%}
    {%- set ordered = inside + outside if hooks == post_hooks else outside + inside -%}
    {%- for hook in ordered if inside_transaction -%}
        {%- set rendered = render(hook.get('sql')) | trim -%}
        {%- if rendered -%}
            {%- call statement(auto_begin=true) -%}{{ rendered }}{%- endcall -%}
        {%- endif -%}
    {%- endfor -%}
{% endmacro %}
