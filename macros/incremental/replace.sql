{#- Replaces a table, with the applied versions in the same commit: scripts/headwaters/runs/replacing.py. A hidden table
    has no declared place, comment or partitions: dbt's macros would return those of the model. -#}
{% macro hw_create_or_replace_sql(target, sql, properties, clustering, is_hidden) -%}
create or replace table {{ target }} using delta
{{ partition_cols(label='partitioned by') if not is_hidden }}
{%- if clustering %}
cluster by ({{ hw_quoted(clustering) | join(', ') }})
{%- endif %}{{ location_clause() ~ comment_clause() if not is_hidden }}
tblproperties ({{ hw_assignments(properties) }})
as
{{ sql }}
{%- endmacro %}


{#- Returns the comment for the table. -#}
{% macro hw_comment_of_model() %}
    {{ return(model.description if config.persist_relation_docs() and model.description else none) }}
{% endmacro %}


{#- Selects the rows without the defaults of their columns: an expression has none. -#}
{% macro hw_without_defaults_sql(rows, columns) -%}
select
{%- for column in columns %}
coalesce({{ column.quoted }}) as {{ column.quoted }}{{ ',' if not loop.last }}
{%- endfor %}
from (
{{ rows }}
)
{%- endmacro %}
