{{ config(
    unique_key='order_id',
    cluster_by=['order_id'],
) }}

with events as (
    {{ change_events(
        source('bronze', 'order_changes'),
        key='order_id',
        columns=['customer_id', 'product_id', 'quantity', 'unit_price', 'status', 'placed_at'],
    ) }}
),

ranked as (
    select
        order_id,
        customer_id,
        product_id,
        quantity,
        unit_price,
        status,
        placed_at,
        changed_at,
        is_deletion,
        row_number() over (partition by order_id order by sequence desc) as place
    from events
),

final as (
    select
        order_id,
        customer_id,
        product_id,
        quantity,
        unit_price,
        cast(quantity * unit_price as decimal(18, 2)) as amount,
        status,
        placed_at,
        to_date(placed_at) as order_date,
        changed_at
    from ranked
    where
        place = 1
        and not is_deletion
)

select * from final
