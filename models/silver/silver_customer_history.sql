{{ config(
    unique_key=['customer_id', 'sequence'],
    cluster_by=['customer_id'],
) }}

with events as (
    {{ change_events(
        source('bronze', 'customer_changes'),
        key='customer_id',
        columns=['full_name', 'email', 'country', 'segment', 'joined_on'],
    ) }}
),

-- The clock of the source may go back. Its log does not, so a change is true no earlier than the one before it.
started as (
    select
        customer_id,
        sequence,
        full_name,
        email,
        country,
        segment,
        joined_on,
        is_deletion,
        max(changed_at) over (
            partition by customer_id
            order by sequence
            range between unbounded preceding and current row
        ) as valid_from
    from events
),

periods as (
    select
        customer_id,
        sequence,
        full_name,
        email,
        country,
        segment,
        joined_on,
        is_deletion,
        valid_from,
        lead(valid_from) over (partition by customer_id order by sequence) as valid_to
    from started
),

final as (
    select
        customer_id,
        sequence,
        full_name,
        email,
        country,
        segment,
        joined_on,
        valid_from,
        valid_to,
        valid_to is null as is_current
    from periods
    where
        not is_deletion
        and (valid_to is null or valid_to > valid_from)
)

select * from final
