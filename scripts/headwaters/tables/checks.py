"""The problems in the declarations of a project, found before any run.

The plugin (scripts/dbt_headwaters.py) checks while dbt parses, and the macro `check_tables` before
a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headwaters.analysis.expectations import expectation_problems
from headwaters.platform.nodes import Node, place_of
from headwaters.platform.problems import Problem
from headwaters.tables.appending import MacroOf, appending_problems, macros_of
from headwaters.tables.policy import policy_problems
from headwaters.tables.properties import build_problems, property_problems
from headwaters.tables.publications import declared as published
from headwaters.tables.publications import publication_problems
from headwaters.tables.retention import feed_retention_problems, stream_retention_problems
from headwaters.tables.settings import node_setting_problems, strategy_problems
from headwaters.tables.stock_settings import stock_problems

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_TYPES = ("model", "seed", "snapshot", "source")
_SHOWN = 10


def node_problems(node: Node) -> Iterator[Problem]:
    """Yield the problems in the declarations of one node, each with its file and name."""
    config, kind = node["config"], node["resource_type"]
    if kind not in _TYPES:
        return
    problems = node_setting_problems(node)
    if not problems:  # the other checks need values of the right type
        checks = [property_problems, policy_problems]
        if kind != "source":
            checks += [build_problems, expectation_problems]
        if kind == "model":
            checks += [strategy_problems, stock_problems]
        problems += [problem for check in checks for problem in check(config)]
    yield from (problem.at(place_of(node)) for problem in problems)


def manifest_problems(manifest: Manifest) -> list[Problem]:
    """Return the problems of each node of a manifest; none if the project uses another adapter."""
    if manifest.metadata.adapter_type != "headwaters":
        return []
    found: list[Problem] = []
    for node in (*manifest.nodes.values(), *manifest.sources.values()):
        if node.resource_type in _TYPES:
            seen = _seen(node)
            found += node_problems(seen)
            found += _appending(
                seen, manifest.metadata.project_name or "", macros_of(manifest.macros)
            )
    exposures = {key: exposure.to_dict() for key, exposure in manifest.exposures.items()}
    if any(map(published, exposures.values())):
        used = {key for one in exposures.values() for key in one["depends_on"]["nodes"]}
        nodes = {key: manifest.nodes[key].to_dict() for key in used if key in manifest.nodes}
        found += publication_problems(exposures, nodes)
    return some(found)


def _seen(node: Any) -> dict[str, Any]:
    """Return a node of a manifest in the form of `graph`, with the parts to check."""
    names = ("resource_type", "original_file_path", "name", "schema", "package_name", "language")
    seen = {name: getattr(node, name, None) for name in (*names, "raw_code")}
    seen["identifier"] = getattr(node, "identifier", None) or getattr(node, "alias", None)
    # a copy, because dbt warns of a `get` of names in the config's meta
    seen["config"] = node.config.to_dict(omit_none=True)
    seen["depends_on"] = {"macros": getattr(getattr(node, "depends_on", None), "macros", [])}
    seen["columns"] = {
        name: {"name": name, "meta": {**column.meta, **column.config.meta}}
        for name, column in (getattr(node, "columns", None) or {}).items()
        if column.meta or column.config.meta
    }
    return seen


def _appending(node: Node, project: str, macro_of: MacroOf) -> Iterator[Problem]:
    for problem in appending_problems(node, project, macro_of):
        yield problem.at(place_of(node))


def graph_problems(
    nodes: Mapping[str, Node], sources: Mapping[str, Node], project: str = ""
) -> list[Problem]:
    """Return the problems of each node of a project, or else those between nodes, by id."""
    everything = {**sources, **nodes}
    found = [problem for node in everything.values() for problem in node_problems(node)]
    for node in nodes.values():
        found += _appending(node, project or node.get("package_name") or "", lambda name: None)
    if found:
        return some(found)
    for source in sources.values():
        found += stream_retention_problems(source)
    for node in nodes.values():
        if node["resource_type"] == "model":
            found += feed_retention_problems(node, everything)
    return some(found)


def some(problems: Iterable[Problem]) -> list[Problem]:
    """Limit the problems to a readable number: one wrong property of a layer affects each model."""
    found = list(problems)
    more = len(found) - _SHOWN
    return found if more <= 0 else [*found[:_SHOWN], Problem("", f"… and {more} more")]
