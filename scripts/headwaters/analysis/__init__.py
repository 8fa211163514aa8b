"""What a model's SQL proves about how its table can be maintained: docs/analysis.md."""
