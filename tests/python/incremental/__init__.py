"""The incremental engine is always right: every table equals plain SQL over its inputs.

- `project/`      a dbt project with at least one model for every strategy
- `expected.py`   the same tables as plain SQL, written without the engine
- `histories.py`  what may happen to inputs, as Hypothesis strategies
- `world.py`      inputs, dbt in this process, comparison, statements that fail on demand
"""
