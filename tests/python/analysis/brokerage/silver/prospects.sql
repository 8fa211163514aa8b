with prospects as (
    select * from {{ source('brokerage', 'prospect') }}
),

final as (
    select
        prospect_id,
        last_name,
        first_name,
        upper(trim(last_name)) as last_name_key,
        upper(trim(first_name)) as first_name_key,
        upper(trim(postal_code)) as postal_code_key,
        city,
        country,
        age,
        income,
        net_worth,
        credit_rating,
        array_join(
            array_compact(
                array(
                    if(net_worth > 1000000 or income > 200000, 'HighValue', null),
                    if(children > 3 or cards > 5, 'Expenses', null),
                    if(age > 45, 'Boomer', null),
                    if(income < 50000 or credit_rating < 600, 'MoneyAlert', null),
                    if(cars > 3 or cards > 7, 'Spender', null),
                    if(age < 25 and net_worth > 1000000, 'Inherited', null)
                )
            ),
            '+'
        ) as nameplate
    from prospects
)

select * from final
