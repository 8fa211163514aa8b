with watches as (
    select * from {{ ref('watches') }}
),

customers as (
    select * from {{ ref('dim_customer') }}
),

securities as (
    select * from {{ ref('dim_security') }}
),

final as (
    select
        watches.customer_id,
        watches.symbol,
        customers.customer_key,
        securities.security_key,
        cast(watches.placed_at as date) as placed_on,
        cast(watches.removed_at as date) as removed_on,
        datediff(watches.removed_at, watches.placed_at) as days_watched
    from watches
    inner join customers
        on
            watches.customer_id = customers.customer_id
            and watches.placed_at >= customers.valid_from
            and watches.placed_at < customers.valid_to
    left join securities
        on
            watches.symbol = securities.symbol
            and watches.placed_at >= securities.valid_from
            and watches.placed_at < securities.valid_to
)

select * from final
