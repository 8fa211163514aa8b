with trades as (
    select * from {{ ref('fact_trades') }}
),

transactions as (
    select * from {{ ref('cash_transactions') }}
),

watches as (
    select * from {{ ref('watch_events') }}
),

customers as (
    select * from {{ ref('customer_versions') }}
),

final as (
    select
        customer_id,
        traded_at as happened_at,
        if(is_sell, 'sale', 'purchase') as activity,
        symbol as subject,
        amount
    from trades
    union all
    select
        customer_id,
        happened_at,
        'cash' as activity,
        description as subject,
        amount
    from transactions
    union all
    select
        customer_id,
        happened_at,
        if(action = 'ACTV', 'watch', 'unwatch') as activity,
        symbol as subject,
        cast(null as decimal(18, 2)) as amount
    from watches
    union all
    select
        customer_id,
        valid_from as happened_at,
        'change' as activity,
        status as subject,
        cast(null as decimal(18, 2)) as amount
    from customers
)

select * from final
