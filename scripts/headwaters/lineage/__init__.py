"""Where each column of the project comes from, and where it goes: docs/lineage.md."""
