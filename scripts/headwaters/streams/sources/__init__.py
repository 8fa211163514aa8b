"""The sources of records: one module for each kind."""
