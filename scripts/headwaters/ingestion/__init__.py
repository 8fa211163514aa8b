"""Streams into bronze and quarantine, exactly once."""
