{{ config(incremental_strategy='change_feed', unique_key='id') }}

select * from {{ changes(source('inputs', 'items')) }} -- noqa: AM04
