{{ config(incremental_strategy='change_feed', unique_key='id', partition_by='grp') }}

{#- `select *` on purpose: columns that come or go in the input reach the model. -#}
select * from {{ changes(source('inputs', 'items')) }} -- noqa: AM04
