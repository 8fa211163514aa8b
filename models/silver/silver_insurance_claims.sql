{{ config(
    incremental_strategy='change_feed',
    unique_key='claim_id',
    latest_by=['status_step', 'ingested_at'],
    prune_by=['incident_date'],
    cluster_by=['incident_date', 'policy_id'],
) }}

with records as (
    select * from {{ changes(source('bronze', 'insurance_claims')) }}
),

typed as (
    select
        claim_id,
        policy_id,
        account_id,
        lower(claim_type) as claim_type,
        claimed_at,
        incident_date,
        claim_amount,
        paid_amount,
        premium_amount,
        upper(currency) as currency,
        lower(status) as status,
        _ingested_at as ingested_at
    from records
),

final as (
    select
        claim_id,
        policy_id,
        account_id,
        claim_type,
        claimed_at,
        incident_date,
        year(incident_date) as accident_year,
        claim_amount,
        paid_amount,
        premium_amount,
        currency,
        status,
        -- A claim is sent again when its status changes, without the time of the change, and one batch may contain
        -- several of its records. The status only advances, so its position determines the latest record.
        case status
            when 'open' then 1
            when 'approved' then 2
            when 'rejected' then 2
            when 'paid' then 3
            else 0
        end as status_step,
        ingested_at
    from typed
)

select * from final
