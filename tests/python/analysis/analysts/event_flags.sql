select user_id, happened_at, cast(score as int) >>> 2 as bucket, X"42" as marker
from events
