select source, body:event::string as event, body:data.id::int as id
from webhooks
