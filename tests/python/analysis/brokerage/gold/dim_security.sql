with securities as (
    select * from {{ ref('security_versions') }}
),

companies as (
    select * from {{ ref('company_versions') }}
),

final as (
    select
        md5(
            concat_ws('|', securities.security_version_id, companies.company_version_id)
        ) as security_key,
        securities.security_version_id,
        companies.company_version_id,
        securities.symbol,
        securities.name,
        securities.issue_type,
        securities.status,
        securities.exchange_id,
        securities.company_id,
        companies.name as company_name,
        companies.industry,
        companies.sector,
        securities.shares_outstanding,
        securities.dividend,
        greatest(securities.valid_from, companies.valid_from) as valid_from,
        least(securities.valid_to, companies.valid_to) as valid_to,
        securities.is_current and companies.is_current as is_current
    from securities
    inner join companies
        on
            securities.company_id = companies.company_id
            and securities.valid_from < companies.valid_to
            and securities.valid_to > companies.valid_from
)

select * from final
