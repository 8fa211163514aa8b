{{ config(
    unique_key='product_id',
    cluster_by=['product_id'],
) }}

with events as (
    {{ change_events(
        source('bronze', 'product_changes'),
        key='product_id',
        columns=['name', 'category', 'price'],
    ) }}
),

ranked as (
    select
        product_id,
        name,
        category,
        price,
        changed_at,
        is_deletion,
        row_number() over (partition by product_id order by sequence desc) as place
    from events
),

final as (
    select
        product_id,
        name,
        category,
        price,
        changed_at
    from ranked
    where
        place = 1
        and not is_deletion
)

select * from final
