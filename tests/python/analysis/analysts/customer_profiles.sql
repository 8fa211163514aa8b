select
    customer_id,
    lower(email) as email,
    get_json_object(profile, '$.language') as language,
    get_json_object(profile, '$.newsletter') = 'true' as has_newsletter
from customers
