with accounts as (
    select * from {{ ref('account_versions') }}
),

customers as (
    select * from {{ ref('customer_versions') }}
),

-- One row for each period in which neither the account nor its customer changed.
final as (
    select
        md5(
            concat_ws('|', accounts.account_version_id, customers.customer_version_id)
        ) as account_key,
        accounts.account_version_id,
        customers.customer_version_id,
        accounts.account_id,
        accounts.customer_id,
        accounts.broker_id,
        accounts.account_name,
        accounts.tax_status,
        accounts.status,
        customers.tier as customer_tier,
        customers.status as customer_status,
        greatest(accounts.valid_from, customers.valid_from) as valid_from,
        least(accounts.valid_to, customers.valid_to) as valid_to,
        accounts.is_current and customers.is_current as is_current
    from accounts
    inner join customers
        on
            accounts.customer_id = customers.customer_id
            and accounts.valid_from < customers.valid_to
            and accounts.valid_to > customers.valid_from
)

select * from final
