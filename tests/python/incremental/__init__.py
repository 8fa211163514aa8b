"""Test that incremental tables always equal plain SQL over their inputs.

- `project/`      a dbt project with at least one model for every strategy
- `expected.py`   the same tables as plain SQL, written without the engine
- `fuzz/`         random histories, which have their own tables and models
- `world.py`      inputs, dbt in this process, comparison, statements that fail on demand
"""
