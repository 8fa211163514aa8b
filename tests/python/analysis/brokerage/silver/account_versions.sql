with changes as (
    select * from {{ source('brokerage', 'account_change') }}
),

filled as (
    select
        change_id as account_version_id,
        account_id,
        last_value(customer_id) ignore nulls over versions as customer_id,
        last_value(broker_id) ignore nulls over versions as broker_id,
        last_value(name) ignore nulls over versions as account_name,
        last_value(tax_status) ignore nulls over versions as tax_status,
        if(action = 'CLOSEACCT', 'inactive', 'active') as status,
        changed_at as valid_from,
        lead(changed_at) over versions as next_changed_at
    from changes
    window versions as (partition by account_id order by changed_at, change_id)
),

final as (
    select
        account_version_id,
        account_id,
        customer_id,
        broker_id,
        account_name,
        case tax_status
            when 0 then 'non-taxable'
            when 1 then 'taxable'
            when 2 then 'deferred'
            else 'unknown'
        end as tax_status,
        status,
        valid_from,
        coalesce(next_changed_at, timestamp '9999-12-31 00:00:00') as valid_to,
        next_changed_at is null as is_current
    from filled
)

select * from final
