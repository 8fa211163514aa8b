{{ config(incremental_strategy='change_feed', unique_key='id', partition_by='grp') }}

select * from {{ changes(source('inputs', 'items')) }} -- noqa: AM04
