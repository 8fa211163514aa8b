{{ config(
    incremental_strategy='affected_keys',
    unique_key=['claim_type', 'accident_year', 'currency'],
) }}

with claims as (
    select *
    from {{ affected(
        ref('silver_insurance_claims'),
        key=['claim_type', 'accident_year', 'currency'],
    ) }}
),

-- The premium of a policy counts once, whatever its number of claims.
policies as (
    select
        claim_type,
        accident_year,
        currency,
        policy_id,
        count(*) as claims,
        count_if(status = 'open') as open_claims,
        sum(claim_amount) as claimed_amount,
        sum(coalesce(paid_amount, 0)) as paid_amount,
        max_by(premium_amount, struct(claimed_at, claim_id)) as premium_amount
    from claims
    group by
        claim_type,
        accident_year,
        currency,
        policy_id
),

totals as (
    select
        claim_type,
        accident_year,
        currency,
        count(*) as policies,
        sum(claims) as claims,
        sum(open_claims) as open_claims,
        cast(sum(claimed_amount) as decimal(28, 2)) as claimed_amount,
        cast(sum(paid_amount) as decimal(28, 2)) as paid_amount,
        cast(sum(premium_amount) as decimal(28, 2)) as premium_amount
    from policies
    group by
        claim_type,
        accident_year,
        currency
),

final as (
    select
        claim_type,
        accident_year,
        currency,
        policies,
        claims,
        open_claims,
        claimed_amount,
        paid_amount,
        premium_amount,
        cast(paid_amount / nullif(premium_amount, 0) as decimal(18, 6)) as loss_ratio
    from totals
)

select * from final
