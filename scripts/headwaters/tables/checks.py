"""The problems in the declarations of a project, found before any run.

The plugin (scripts/dbt_headwaters.py) checks while dbt parses, and the macro `check_tables` before
a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwaters.analysis import expectation_problems
from headwaters.platform.nodes import Node, place_of
from headwaters.platform.problems import Problem
from headwaters.tables.misspelt_settings import (
    beside_problems,
    macro_problems,
    name_problems,
)
from headwaters.tables.overridden_macros import override_problems
from headwaters.tables.policy import policy_problems
from headwaters.tables.properties import build_problems, property_problems
from headwaters.tables.publications import declared as published
from headwaters.tables.publications import publication_problems
from headwaters.tables.queries_by_run import (
    MacroOf,
    appending_problems,
    macros_of,
    refresh_problems,
)
from headwaters.tables.retention import feed_retention_problems, stream_retention_problems
from headwaters.tables.setting_conflicts import fitting_problems, names_of, python_problems
from headwaters.tables.settings import strategy_problems, value_problems
from headwaters.tables.stock_settings import SYNONYMS, stock_problems

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

_TYPES = ("model", "seed", "snapshot", "source")
_SECTIONS = ("models", "seeds", "snapshots", "sources")
_SHOWN = 10


def setting_problems(node: Node) -> list[Problem]:
    """Return the problems of the names and values of a node's settings."""
    config = node["config"]
    values = (*value_problems(config), *stock_problems(config, node["resource_type"]))
    return [*name_problems(node), *values]


def node_problems(node: Node) -> Iterator[Problem]:
    """Yield the problems in the declarations of one node, each with its file and name."""
    config, kind = node["config"], node["resource_type"]
    if kind not in _TYPES:
        return
    problems = setting_problems(node)
    if not problems:  # the other checks need values of the right type
        checks = [property_problems, policy_problems]
        if kind != "source":
            checks += [build_problems, expectation_problems]
        if kind == "model":
            checks += [strategy_problems]
        problems += [problem for check in checks for problem in check(config)]
        problems += fitting_problems(node)
        problems += python_problems(node)
    yield from (problem.at(_place(node, problem)) for problem in problems)


def _place(node: Node, problem: Problem) -> str:
    """Return the file and the node of a problem, or the project's file if the setting is there."""
    is_known = bool(problem.setting) and "written" in node and not node.get("is_of_package")
    is_in_project = is_known and not _is_written(problem.setting, node["written"])
    return "dbt_project.yml" if is_in_project else place_of(node)


def _is_written(name: str, written: Collection[str]) -> bool:
    """Return true if a node has a setting, its synonym, or the one of this name in its `meta`."""
    names = {name, *(one for one, meaning in SYNONYMS.items() if meaning == name)}
    return not names.union(f"meta.{one}" for one in names).isdisjoint(written)


def every_problem(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of a manifest, node by node."""
    project = manifest.metadata.project_name or ""
    entries = dict(_entries(manifest, project))
    exposures = {key: exposure.to_dict() for key, exposure in manifest.exposures.items()}
    publishing = [exposure for exposure in exposures.values() if published(exposure)]
    used = {key for exposure in publishing for key in exposure["depends_on"]["nodes"]}
    for (section, _), entry in entries.items():
        for problem in beside_problems(section, entry.properties):
            yield problem.at(entry.file)
    yield from override_problems(manifest.macros.values(), project)
    for node in (*manifest.nodes.values(), *manifest.sources.values()):
        if node.resource_type in _TYPES:
            is_published = getattr(node, "unique_id", None) in used
            seen = {**_seen(node, project, entries), "is_published": is_published}
            yield from node_problems(seen)
            for problem in macro_problems(seen, manifest.macros):
                yield problem.at(_place(seen, problem))
            yield from _of_queries(seen, project, macros_of(manifest.macros))
    if publishing:
        nodes = {key: manifest.nodes[key].to_dict() for key in used if key in manifest.nodes}
        yield from publication_problems(exposures, nodes)


@dataclass(frozen=True)
class _Entry:
    """The entry of a node in a YAML file."""

    file: str
    properties: Mapping[str, Any]

    def written(self, version: Any) -> frozenset[str]:
        """Return the names that an entry configures, of one version of a model."""
        versions = self.properties.get("versions") or ()
        parts = [self.properties, *(one for one in versions if one.get("v") == version)]
        return frozenset().union(
            *(names_of(part.get("config") or {}) for part in parts),
            names_of({"meta": self.properties.get("meta")}),
        )


def _entries(manifest: Manifest, project: str) -> Iterator[tuple[tuple[str, str], _Entry]]:
    """Yield the entries of a project's YAML files, with their sections and names."""
    for file in getattr(manifest, "files", {}).values():
        if file.project_name != project:
            continue
        for section in _SECTIONS:
            for properties in (getattr(file, "dfy", None) or {}).get(section) or ():
                name = str(properties.get("name"))
                yield (section, name), _Entry(file.path.original_file_path, properties)


def _seen(node: Any, project: str, entries: Mapping[tuple[str, str], _Entry]) -> Node:
    """Return a node of a manifest in the form of `graph`, with the parts to check."""
    names = ("resource_type", "original_file_path", "name", "schema", "package_name", "language")
    more = ("database", "raw_code", "unrendered_config")
    seen: dict[str, Any] = {name: getattr(node, name, None) for name in (*names, *more)}
    seen["identifier"] = getattr(node, "identifier", None) or getattr(node, "alias", None)
    # a copy, because dbt warns of a `get` of names in the config's meta
    seen["config"] = node.config.to_dict(omit_none=True)
    seen["depends_on"] = {"macros": getattr(getattr(node, "depends_on", None), "macros", [])}
    seen["columns"] = {
        name: {"name": name, "meta": {**column.meta, **column.config.meta}}
        for name, column in (getattr(node, "columns", None) or {}).items()
        if column.meta or column.config.meta
    }
    called = getattr(node, "config_call_dict", None)
    if called is not None:
        entry = entries.get((f"{node.resource_type}s", node.name))
        own = entry.written(getattr(node, "version", None)) if entry else frozenset()
        seen["written"] = names_of(called) | own
    return as_seen_by(project, seen)


def _of_queries(node: Node, project: str, macro_of: MacroOf) -> Iterator[Problem]:
    for problem in (*appending_problems(node, project, macro_of), *refresh_problems(node, project)):
        yield problem.at(place_of(node))


def graph_problems(
    nodes: Mapping[str, Node], sources: Mapping[str, Node], project: str = ""
) -> list[Problem]:
    """Return the problems of each node of a project, or else those between nodes, by id."""
    everything = {**sources, **nodes}
    found = [
        problem
        for node in everything.values()
        for problem in node_problems(as_seen_by(project, node))
    ]
    for node in nodes.values():
        found += _of_queries(node, project or node.get("package_name") or "", lambda name: None)
    if found:
        return some(found)
    for source in sources.values():
        found += stream_retention_problems(source)
    for node in nodes.values():
        if node["resource_type"] == "model":
            found += feed_retention_problems(node, everything)
    return some([*found, *_of_one_table(nodes.values())])


def _of_one_table(nodes: Iterable[Node]) -> Iterator[Problem]:
    """Yield the nodes that write the table of another one: dbt compares names with their case."""
    written: dict[tuple[str, str], Node] = {}
    for node in nodes:
        is_table = node["resource_type"] in ("model", "seed", "snapshot")
        if not is_table or node["config"].get("materialized") == "ephemeral":
            continue
        schema, name = str(node["schema"]), str(node.get("alias") or node["name"])
        other = written.setdefault((schema.lower(), name.lower()), node)
        if other is not node:
            yield Problem(
                "HW_SAME_TABLE",
                f"{node['original_file_path']}: {node['name']} writes the table {schema}.{name}, "
                f"and so does {other['name']} ({other['original_file_path']}), since names of "
                "tables ignore case: give one of them another alias",
            )


def as_seen_by(project: str, node: Node) -> Node:
    """Return a node with a mark if it is of a package: the project cannot edit its settings."""
    if not project or node.get("package_name") in (None, project):
        return node
    return {**node, "is_of_package": True, "written": frozenset()}


def some(problems: Iterable[Problem]) -> list[Problem]:
    """Limit the problems to a readable number: one wrong property of a layer affects each model.

    A line of `dbt_project.yml` is named once for all its models.
    """
    found = list(dict.fromkeys(problems))
    more = len(found) - _SHOWN
    return found if more <= 0 else [*found[:_SHOWN], Problem("", f"… and {more} more")]
