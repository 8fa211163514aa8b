{{ config(
    unique_key='customer_id',
    cluster_by=['customer_id'],
) }}

with periods as (
    select * from {{ ref('silver_customer_history') }}
),

final as (
    select
        customer_id,
        full_name,
        email,
        country,
        segment,
        joined_on,
        valid_from as changed_at
    from periods
    where is_current
)

select * from final
