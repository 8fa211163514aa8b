{% macro hw_require_reason(operation, reason) %}
    {%- if not reason or not reason | string | trim -%}
        {{ hw_raise('HW_NO_REASON', operation ~ ": say why, in reason: '…': it is kept in the table's history and in "
            ~ "ops.operations. Nothing was changed.") }}
    {%- endif -%}
{% endmacro %}
