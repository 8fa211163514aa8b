{{ config(
    incremental_strategy='history',
    unique_key='claim_id',
    cluster_by=['claim_id'],
) }}

with claims as (
    select * from {{ images(ref('silver_insurance_claims'), at='ingested_at') }}
),

final as (
    select
        claim_id,
        policy_id,
        status,
        claim_amount,
        paid_amount,
        currency,
        _image
    from claims
)

select * from final
