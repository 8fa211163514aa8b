"""The ingestion of streams into bronze and quarantine, exactly once."""
