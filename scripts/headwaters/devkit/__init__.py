"""Set-up, a local engine, a broker, a PostgreSQL, and samples. No other wing imports it."""
