with events as (
    select * from {{ source('brokerage', 'watch_event') }}
),

securities as (
    select * from {{ ref('security_versions') }}
),

final as (
    select
        events.customer_id,
        events.symbol,
        events.happened_at,
        events.action,
        securities.company_id,
        securities.company_name,
        securities.exchange_id,
        securities.status as security_status
    from events
    left join securities
        on
            events.symbol = securities.symbol
            and events.happened_at >= securities.valid_from
            and events.happened_at < securities.valid_to
)

select * from final
