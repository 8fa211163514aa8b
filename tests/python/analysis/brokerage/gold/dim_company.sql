with companies as (
    select * from {{ ref('company_versions') }}
),

securities as (
    select * from {{ ref('security_versions') }}
),

final as (
    select
        companies.company_version_id,
        companies.company_id,
        companies.name,
        companies.status,
        companies.industry,
        companies.sector,
        companies.rating,
        companies.is_low_grade,
        companies.ceo,
        companies.founded_on,
        companies.valid_from,
        companies.valid_to,
        companies.is_current,
        (
            select count(distinct securities.symbol)
            from securities
            where
                securities.company_id = companies.company_id
                and securities.is_current
        ) as listed_securities
    from companies
)

select * from final
