"""Run an incremental model: plan, stage, inspect, write, advance.

Begin with run.py, which has the order of the steps. planning.py, staging.py, writing.py,
replacing.py and patching.py have a step each, and decisions.py has the decisions without a
statement. docs/architecture.md, "Where a thing belongs", places the other modules.
"""
