"""The declarations of the project in dbt's manifest: nodes of tables, contracts, thresholds."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from headwaters.platform.errors import CodedError, UserError
from headwaters.platform.manifest import parse
from headwaters.platform.nodes import Node, setting, table_name
from headwaters.platform.project import Project
from headwaters.report.facts import Freshness, ReportedOutcome
from headwaters.streams.contract import Contract, parse_contract
from headwaters.tables.ledger import OPS

_PERIODS = {"minute": 60, "hour": 3600, "day": 86400}


@dataclass(frozen=True)
class Declared:
    """The nodes of tables by id, the contracts of the streams, and the errors in both."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    contracts: tuple[Contract, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def tables(self) -> dict[str, Node]:
        """Return the nodes by their tables' names, in lower case like Spark's folders."""
        return {table_name(node).lower(): node for node in self.nodes.values()}

    @property
    def ops(self) -> str:
        """Return the schema of headwaters' own records."""
        node = self.nodes.get(f"{OPS}operations")
        return str(node["schema"]).lower() if node else "ops"

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """Return the lineage as pairs of names: a table, and a table that reads it."""
        return tuple(
            (table_name(self.nodes[one]).lower(), table_name(node).lower())
            for node in self.nodes.values()
            for one in dict.fromkeys(node.get("depends_on", {}).get("nodes", ()))
            if one in self.nodes
        )


def declared(project: Project) -> Declared:
    """Return the project's declarations. If dbt cannot parse it, return only the error."""
    try:
        with contextlib.chdir(project.root):  # dbt changes to this folder, and stays
            manifest = parse(project)
    except UserError as error:
        return Declared(problems=(str(error),))
    nodes = {
        key: node.to_dict()
        for key, node in {**manifest.nodes, **manifest.sources}.items()
        if node.config.enabled and _is_table(node)
    }
    return of_nodes(nodes)


def of_nodes(nodes: Mapping[str, Node]) -> Declared:
    """Return the declarations of some nodes of tables."""
    contracts, problems = [], []
    for node in nodes.values():
        if node["resource_type"] == "source" and setting(node["config"], "stream") is not None:
            try:
                contracts.append(parse_contract(node))
            except CodedError as error:
                problems.append(str(error))
    return Declared(nodes, tuple(sorted(contracts, key=lambda one: one.name)), tuple(problems))


def _is_table(node: Any) -> bool:
    kind = str(node.resource_type)
    if kind == "model":
        return node.config.materialized not in ("view", "ephemeral")
    return kind in ("seed", "snapshot", "source")


def freshness_of(node: Node, last_change: datetime | None) -> Freshness:
    """Return the freshness of a source, without thresholds if it declares none."""
    given = node.get("freshness") or {}
    warn, error = (_seconds(given.get(name)) for name in ("warn_after", "error_after"))
    return Freshness(table_name(node).lower(), last_change, warn, error)


def _seconds(threshold: Any) -> float | None:
    count = (threshold or {}).get("count")
    return None if count is None else float(count) * _PERIODS[str(threshold["period"])]


def outcomes(project: Project) -> dict[str, ReportedOutcome]:
    """Return the outcome of each node in dbt's last invocation, by id; {} if there was none.

    Raises ValueError and similar errors for a file that dbt did not write.
    """
    file = _target(project) / "run_results.json"
    if not file.exists():
        return {}
    found = json.loads(file.read_text())
    ended = datetime.fromisoformat(found["metadata"]["generated_at"]).astimezone(UTC)
    return {
        one["unique_id"]: ReportedOutcome(
            str(one["status"]),
            _ended(one["timing"], ended),
            float(one["execution_time"]),
            " ".join(str(one["message"] or "").split()),
        )
        for one in found["results"]
    }


def _ended(timing: list[Mapping[str, str]], ended: datetime) -> datetime:
    moments = [one["completed_at"] for one in timing if one.get("completed_at")]
    return datetime.fromisoformat(max(moments)).astimezone(UTC) if moments else ended


def _target(project: Project) -> Path:
    folder = os.environ.get("DBT_TARGET_PATH") or settings(project).get("target-path")
    return project.root / (folder or "target")


def settings(project: Project) -> Mapping[str, Any]:
    """Return the contents of dbt_project.yml."""
    found: Mapping[str, Any] = yaml.safe_load((project.root / "dbt_project.yml").read_text())
    return found
