"""The formats of records: one module for each."""
