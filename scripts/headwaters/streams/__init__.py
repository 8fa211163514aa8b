"""Contracts, sources, formats, ingestion, replay and reconciliation of streams."""
