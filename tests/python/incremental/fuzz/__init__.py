"""Fuzz histories: incremental runs leave the tables that full refreshes would have left.

- `history.py`  histories: tables, models, and steps of changes and runs; pure
- `draw.py`     draws a history from a seed and a number; pure
- `lot.py`      runs many histories in one dbt project and compares every table after every run
- `shrink.py`   makes a failing history small
- `__main__.py` the command: `python -m incremental.fuzz --seed 1 --histories 1000`
"""
