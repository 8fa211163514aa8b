"""The state of the lake: facts, page, metrics and events."""
