with trades as (
    select * from {{ ref('fact_trades') }}
),

watches as (
    select * from {{ ref('watches') }}
),

traded as (
    select
        customer_id,
        count(distinct symbol) as symbols_traded,
        count(distinct sector) as sectors_traded,
        array_join(sort_array(collect_set(symbol)), ',') as symbols
    from trades
    group by customer_id
),

watched as (
    select
        customer_id,
        count(*) as symbols_watched
    from watches
    where status = 'active'
    group by customer_id
),

final as (
    select
        traded.customer_id,
        traded.symbols_traded,
        traded.sectors_traded,
        traded.symbols,
        coalesce(watched.symbols_watched, 0) as symbols_watched
    from traded
    left join watched
        on traded.customer_id = watched.customer_id
)

select * from final
