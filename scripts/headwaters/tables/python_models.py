"""The settings of Python models that the SQL of a model has to explain, or that need Databricks."""

from __future__ import annotations

from collections.abc import Iterator

from headwaters.platform.nodes import Node
from headwaters.platform.problems import Problem
from headwaters.tables.setting_types import FOLLOWING, is_empty

CODE = "HW_PYTHON_MODEL"
METHOD = "session"


def python_problems(node: Node) -> Iterator[Problem]:
    """Yield the settings of a Python model that it cannot have."""
    if node.get("language") != "python":
        return
    config = node["config"]
    method = config.get("submission_method")
    if not is_empty(method) and method != METHOD:
        yield Problem(
            CODE,
            f"submission_method {method} runs a model on Databricks. Here Python models run in "
            f"dbt's own Spark session: remove the setting, or write {METHOD}",
        )
    strategy = config.get("incremental_strategy")
    if config.get("materialized") == "incremental" and strategy in {*FOLLOWING} - {"auto"}:
        yield Problem(
            CODE,
            f"incremental_strategy {strategy} follows the SQL of a model, and this one is Python: "
            "write auto, which replaces the table in every run, or a strategy of dbt",
        )
