"""The publication of tables: their net changes go to other systems, exactly once in effect."""
