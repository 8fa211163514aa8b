"""The lineage of each column, up and down: docs/lineage.md."""
