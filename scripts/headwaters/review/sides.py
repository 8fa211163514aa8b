"""One side of a review: a project as dbt parsed it, and questions about its graph.

Functions of the graph are pure. They take nodes by id, as `load_compiled` returns them.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from headwaters.platform.dbt_compat import copied
from headwaters.platform.errors import UserError
from headwaters.platform.manifest import NOT_READ, compiled, parse
from headwaters.platform.nodes import Node

if TYPE_CHECKING:
    from dbt.contracts.graph.manifest import Manifest

    from headwaters.platform.project import Project

BUILT = ("model", "seed", "snapshot")
TESTS = ("test", "unit_test")


class HeadRefused(Exception):
    """The refusal of the branch's project by dbt; the text is dbt's reason."""


@dataclass(frozen=True)
class Side:
    """A project as one side of a comparison: nodes and exposures by id, and the SQL of macros.

    `files` are those of the project's own macros, docs and groups, `refused` the reasons for models
    without compiled SQL. `manifest` is the one that dbt parsed; pure functions use neither it nor
    the project.
    """

    nodes: Mapping[str, Node]
    exposures: Mapping[str, Node]
    macros: Mapping[str, str]
    files: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    manifest: Manifest = None  # type: ignore[assignment]  # of a project that is not built
    project: Project = None  # type: ignore[assignment]  # likewise

    @property
    def root(self) -> Path:
        """Return the folder of the project."""
        return self.project.root if self.project else Path()

    def table(self, key: str) -> str:
        """Return the qualified name of a node's table in production."""
        return str((self.manifest.nodes.get(key) or self.manifest.sources[key]).relation_name)


def read_sides(project: Project, base_project: Project) -> tuple[Side, Side]:
    """Return the base and the head.

    Raises UserError if the base does not parse, or neither does, and HeadRefused if only the head
    does not.
    """
    refused: UserError | None = None
    try:
        head = _read(project)
    except UserError as error:
        refused = error
    try:
        base = _read(base_project)
    except UserError as error:
        if refused is not None:
            raise refused from None  # not a fault of the branch
        raise UserError(
            "HW_REVIEW_BASE",
            f"the base does not parse, so there is nothing to compare: {error.text}",
        ) from None
    if refused is not None:
        raise HeadRefused(refused.text.removeprefix(NOT_READ))
    return base, head


def _read(project: Project) -> Side:
    with contextlib.chdir(project.root):  # dbt changes to this folder, and stays
        manifest = parse(project)
        as_parsed = copied(manifest)
        found = compiled(project, manifest)
    macros = {key: macro.macro_sql for key, macro in manifest.macros.items()}
    units = {key: test.to_dict() for key, test in manifest.unit_tests.items()}
    nodes = {key: _with_content(node, project) for key, node in {**found.nodes, **units}.items()}
    own = [*manifest.macros.values(), *manifest.docs.values(), *manifest.groups.values()]
    name = manifest.metadata.project_name
    files = {one.original_file_path for one in own if one.package_name == name}
    return Side(nodes, found.exposures, macros, frozenset(files), found.refused, as_parsed, project)


def _with_content(node: Node, project: Project) -> Node:
    """Give a seed the checksum of its file: above 1 MB, dbt's own is that of the path."""
    if node["resource_type"] != "seed" or node["checksum"]["name"] != "path":
        return node
    file = project.root / node["original_file_path"]
    return {**node, "checksum": hashlib.sha256(file.read_bytes()).hexdigest()}


def built_nodes(side: Side) -> Iterator[str]:
    """Yield the models, seeds and snapshots of a side."""
    return (key for key, node in side.nodes.items() if node["resource_type"] in BUILT)


def parents_of(node: Node) -> list[str]:
    """Return the nodes that a node reads."""
    return list((node.get("depends_on") or {}).get("nodes") or ())


def in_order(nodes: Mapping[str, Node]) -> list[str]:
    """Sort nodes so that each follows its inputs, and otherwise alphabetically."""
    order: dict[str, None] = {}

    def add(key: str, above: tuple[str, ...]) -> None:
        if key in order or key in above:
            return
        for parent in sorted(parents_of(nodes[key])):
            if parent in nodes:
                add(parent, (*above, key))
        order[key] = None

    for key in sorted(nodes):
        add(key, ())
    return list(order)


def to_build(keys: Iterable[str], side: Side) -> tuple[str, ...]:
    """Return the nodes of `keys` with tables, and the views they read: views have no versions."""

    def views(key: str) -> Iterable[str]:
        return (
            parent
            for parent in parents_of(side.nodes[key])
            if _kind(side.nodes.get(parent)) in ("view", "ephemeral")
        )

    chosen = {key for key in keys if key in side.nodes}
    found = chosen | reached(chosen, views)
    return tuple(
        key
        for key in in_order(side.nodes)
        if key in found and _kind(side.nodes[key]) not in ("ephemeral", "")
    )


def reached(start: Iterable[str], step: Callable[[str], Iterable[str]]) -> set[str]:
    """Return the nodes that any number of steps reach."""
    found: set[str] = set()
    fresh = set(start)
    while fresh:
        fresh = {one for key in fresh for one in step(key)} - found
        found |= fresh
    return found


def _kind(node: Node | None) -> str:
    if node is None or node["resource_type"] not in BUILT:
        return ""
    return str(node["config"].get("materialized") or "table")


def _read_through(
    keys: Iterable[str], side: Side, is_passed: Callable[[str], bool]
) -> Iterator[str]:
    """Yield what nodes read, directly or through nodes that are passed; these are left out."""
    start = set(keys)
    passed = reached(start, lambda key: filter(is_passed, parents_of(side.nodes[key])))
    read = (parent for key in start | passed for parent in parents_of(side.nodes[key]))
    return (parent for parent in read if not is_passed(parent))


def inputs(built: Iterable[str], side: Side) -> tuple[str, ...]:
    """Return the tables that the built nodes read and that are not built themselves."""
    own = set(built)
    read = _read_through(own, side, lambda one: _kind(side.nodes.get(one)) == "ephemeral")
    return tuple(sorted({one for one in read if one in side.nodes} - own))


def read_by_tests(built: Iterable[str], side: Side) -> tuple[str, ...]:
    """Return the other tables that the tests of the built nodes read."""
    own = set(built)
    found = {
        parent
        for node in side.nodes.values()
        if node["resource_type"] == "test" and own & set(parents_of(node))
        for parent in parents_of(node)
        if parent in side.nodes and _kind(side.nodes[parent]) != "ephemeral"
    }
    return tuple(sorted(found - own))


def has_tests(built: Iterable[str], side: Side) -> bool:
    """Return true if any of the built nodes has a test."""
    own = set(built)
    tests = (node for node in side.nodes.values() if node["resource_type"] in TESTS)
    return any(own & set(parents_of(node)) for node in tests)


def followers(built: Iterable[str], side: Side) -> dict[str, list[str]]:
    """Return, for each table that is read but not built, its readers among the built nodes."""
    found: dict[str, list[str]] = {}
    own = set(built)
    for key in own:
        for parent in {*inputs([key], side)} - own:
            found.setdefault(parent, []).append(key)
    return found


def tables_above(key: str, built: Iterable[str], side: Side) -> set[str]:
    """Return the built tables that a node reads, directly or through views."""
    own = set(built)

    def is_passed(parent: str) -> bool:
        kind = _kind(side.nodes.get(parent))
        return kind == "ephemeral" or (kind == "view" and parent in own)

    return own.intersection(_read_through([key], side, is_passed))
