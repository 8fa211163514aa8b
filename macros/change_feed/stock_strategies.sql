{% macro _run_stock_strategy(strategy) %}
    {{ exceptions.raise_compiler_error('not yet: ' ~ strategy) }}
{% endmacro %}
