"""The differences of a table from its declaration: changes that reconcile it, and their undo.

This module contains no SQL: a macro writes the statements of a change. See docs/tables.md.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from headwaters.platform.delta_version import FEATURE, FEED
from headwaters.platform.errors import UserError
from headwaters.platform.nodes import Node, as_tuple, setting, table_name
from headwaters.platform.sql import identifier
from headwaters.tables.commits import as_mapping, as_names
from headwaters.tables.properties import (
    CONSTRAINT,
    DECLARED,
    VERSIONS,
    declared_properties,
    ends_deletion_vectors,
    in_order,
    is_same,
)

Sign = Literal["+", "~", "-"]
Value = str | tuple[str, ...] | None


@dataclass(frozen=True)
class DeclaredTable:
    """A table as a model, seed or source declares it; `comment` is None if undeclared."""

    name: str
    schema: str
    identifier: str
    kind: str
    properties: Mapping[str, str]
    checks: Mapping[str, str]
    cluster_by: tuple[str, ...]
    partition_by: tuple[str, ...]
    comment: str | None

    @property
    def is_source(self) -> bool:
        """Return true if others make the table, so that undeclared properties stay."""
        return self.kind == "source"


@dataclass(frozen=True)
class ActualTable:
    """An actual table, from its row of DESCRIBE DETAIL; properties include its protocol."""

    properties: Mapping[str, str]
    clustered_by: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    comment: str | None

    @classmethod
    def of(cls, detail: Mapping[str, Any]) -> ActualTable:
        """Parse the row, whose lists may be text."""
        properties = {name: str(value) for name, value in as_mapping(detail["properties"]).items()}
        for name in VERSIONS:
            properties[name] = str(detail[name.removeprefix("delta.")])
        for feature in as_names(detail["tableFeatures"]):
            properties[FEATURE + feature] = "supported"
        return cls(
            properties=properties,
            clustered_by=as_names(detail["clusteringColumns"]),
            partitioned_by=as_names(detail["partitionColumns"]),
            comment=detail["description"],
        )


@dataclass(frozen=True)
class TableDifference:
    """One difference: the table's value, and the declared one; None is nothing.

    `name` is that of a property, a check or a column; the table's comment is the property
    `comment`. A change without a sign is bookkeeping, which a plan does not show.
    """

    kind: Literal["property", "check", "clustering", "partitioning", "column"]
    name: str
    before: Value
    after: Value
    sign: Sign | None

    @property
    def what(self) -> str:
        """Return the plan's name of the difference."""
        named = {
            "property": self.name,
            "check": f"constraint {self.name}",
            "clustering": "clustered by",
            "partitioning": "partitioned by",
            "column": f"comment of {self.name}",
        }
        return named[self.kind]

    @property
    def rewrite(self) -> bool:
        """Return true if the change rewrites the table."""
        return self.kind == "partitioning"

    @property
    def line(self) -> str:
        """Return the line of a plan."""
        before, after = _shown(self.before), _shown(self.after)
        value = {"+": after, "-": before}.get(self.sign or "", f"{before} -> {after}")
        return f"  {self.sign} {self.what}: {value}{' (rewrites the table)' * self.rewrite}"


@dataclass(frozen=True)
class Drift:
    """The `changes` of a table, or why only a new table can match the declaration."""

    changes: list[TableDifference]
    problem: str | None = None


def declared_table(node: Node) -> DeclaredTable:
    """Return the parts of a node's declaration that can be compared with a table."""
    config = node["config"]
    properties = declared_properties(config)
    if node["resource_type"] == "source" and setting(config, "stream"):
        properties = {FEED: "true", **properties}
    documented = (config.get("persist_docs") or {}).get("relation")
    return DeclaredTable(
        name=table_name(node),
        schema=node["schema"],
        identifier=node.get("identifier") or node["alias"],
        kind=node["resource_type"],
        properties=properties,
        checks=dict(_checks(node)) if node["resource_type"] == "model" else {},
        cluster_by=as_tuple(setting(config, "cluster_by")),
        partition_by=as_tuple(setting(config, "partition_by")),
        comment=node.get("description") or "" if documented else None,
    )


def _checks(node: Node) -> Iterator[tuple[str, str]]:
    """Yield the name and expression of each check of the table and of its columns.

    dbt-spark names unnamed ones of a table by their hash.

    NOT NULL is a check, because CREATE TABLE AS SELECT makes every column nullable, and Delta does
    not add NOT NULL to a column.
    """
    constraints = node.get("constraints") or ()
    of_columns = [
        (one, (name,))
        for name, column in (node.get("columns") or {}).items()
        for one in column.get("constraints") or ()
    ]
    declared = (*constraints, *(one for one, _ in of_columns))
    for number, check in enumerate((one for one in declared if one["type"] == "check"), 1):
        if not check.get("expression"):
            raise UserError(
                "HW_SETTING",
                f"{node['original_file_path']}: {node['name']}: the constraint "
                f"{check.get('name') or number} of type check has no expression: write one",
            )
        text = f";{check['expression']};{number}"
        name = check.get("name") or hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        yield name, check["expression"]
    of_table = [(one, one.get("columns") or ()) for one in constraints]
    for constraint, columns in (*of_table, *of_columns):
        if constraint["type"] == "not_null":
            yield from map(not_null_check, columns)


def not_null_check(column: str) -> tuple[str, str]:
    """Return the name and expression of the check that a column is not NULL."""
    name = column.strip("`")
    return f"{name.lower()}_not_null", f"{identifier(name)} is not null"


def created_checks(node: Node) -> dict[str, str]:
    """Return the declared checks of a model, as properties of its new table.

    With checks, they include the list of all declared names, which replaces that of
    `created_properties`. Without checks, the result is empty.
    """
    checks = {_as_property(name): expression for name, expression in _checks(node)}
    if not checks:
        return {}
    return checks | {DECLARED: in_order([*declared_properties(node["config"]), *checks])}


def _as_property(check: str) -> str:
    """Return the property that stores a check in Delta."""
    return CONSTRAINT + check.lower()


def drift_of(declared: DeclaredTable, detail: Mapping[str, Any]) -> Drift:
    """Compare a table with its declaration; `detail` is its row of DESCRIBE DETAIL.

    Properties that Delta or others set are not drift.
    """
    actual = ActualTable.of(detail)
    if _differ(declared, actual.partitioned_by, declared.partition_by):
        if actual.clustered_by and declared.partition_by:
            return Drift([], _not_partitioned(declared))
        layout = [_layout("partitioning", actual.partitioned_by, declared.partition_by)]
    elif _differ(declared, actual.clustered_by, declared.cluster_by):
        layout = [_layout("clustering", actual.clustered_by, declared.cluster_by)]
    else:
        layout = []
    return Drift(
        [
            *_property_changes(declared, actual.properties),
            *_check_changes(declared.checks, actual.properties),
            *layout,
            *_comment_changes(declared.comment, actual.comment),
            *_note_changes(declared, actual.properties),
        ]
    )


def _property_changes(
    declared: DeclaredTable, actual: Mapping[str, str]
) -> Iterator[TableDifference]:
    for name, value in sorted(declared.properties.items()):
        if name not in actual:
            yield TableDifference("property", name, None, value, "+")
        elif not is_same(name, actual[name], value) and not _is_newer(name, actual[name], value):
            yield TableDifference("property", name, actual[name], value, "~")
    for name in sorted(_ours(actual), key=str.lower):
        if name in actual and name not in declared.properties and not name.startswith(CONSTRAINT):
            yield TableDifference("property", name, actual[name], None, "-")


def _is_newer(name: str, actual: str, declared: str) -> bool:
    """Return true for a higher protocol version, which must never be lowered."""
    return name in VERSIONS and int(actual) >= int(declared)


def _check_changes(
    checks: Mapping[str, str], actual: Mapping[str, str]
) -> Iterator[TableDifference]:
    """Yield differing checks, ignoring the spaces and brackets that Delta adds."""
    declared = set(map(_as_property, checks))
    for name, expression in checks.items():
        present = actual.get(_as_property(name))
        if present is None:
            yield TableDifference("check", name, None, expression, "+")
        elif bare_expression(present) != bare_expression(expression):
            yield TableDifference("check", name, present, expression, "~")
    for name in _ours(actual):
        if name.startswith(CONSTRAINT) and name in actual and name not in declared:
            yield TableDifference("check", name.removeprefix(CONSTRAINT), actual[name], None, "-")


def _comment_changes(declared: str | None, actual: str | None) -> Iterator[TableDifference]:
    if declared is not None and declared != (actual or ""):
        yield TableDifference("property", "comment", actual, declared, "~" if actual else "+")


def _note_changes(declared: DeclaredTable, actual: Mapping[str, str]) -> Iterator[TableDifference]:
    names = in_order([*declared.properties, *map(_as_property, declared.checks)])
    if actual.get(DECLARED, "") != names:
        yield TableDifference("property", DECLARED, actual.get(DECLARED), names, None)


def _ours(actual: Mapping[str, str]) -> list[str]:
    """Return the properties and checks declared when the table was last reconciled."""
    return actual.get(DECLARED, "").split(", ")


def _differ(declared: DeclaredTable, before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    return before != after and (bool(after) or not declared.is_source)


def _layout(
    kind: Literal["clustering", "partitioning"], before: tuple[str, ...], after: tuple[str, ...]
) -> TableDifference:
    sign: Sign = "~" if before and after else "+" if after else "-"
    return TableDifference(kind, "", before or None, after or None, sign)


def _not_partitioned(declared: DeclaredTable) -> str:
    return (
        f"{declared.name} is clustered, and Delta does not partition a clustered table: declare "
        f"cluster_by: {list(declared.partition_by)} instead, which reads as well, or drop the "
        "table and rebuild it. Nothing was changed."
    )


def described_columns(columns: Mapping[str, Any]) -> dict[str, str]:
    """Return the descriptions of a node's columns, by their names in lower case."""
    return {
        name.lower(): column["description"]
        for name, column in columns.items()
        if column.get("description")
    }


def comment_drift(
    columns: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]
) -> list[TableDifference]:
    """Return the columns whose comment differs from their description, if they have one.

    `rows` are those of DESCRIBE TABLE, which lists a partition column a second time.
    """
    described = described_columns(columns)
    found: dict[str, str | None] = {}
    for row in rows:
        found.setdefault(row["col_name"], row["comment"])
    return [
        TableDifference(
            "column", name, comment or None, described[name.lower()], "~" if comment else "+"
        )
        for name, comment in found.items()
        if name and described.get(name.lower(), comment) != comment
    ]


def purges(changes: Iterable[TableDifference], detail: Mapping[str, Any]) -> bool:
    """Return true if the table's deletion vectors have to be purged before these changes."""
    wanted = {one.name: str(one.after) for one in changes if one.kind == "property"}
    return ends_deletion_vectors(ActualTable.of(detail).properties, wanted)


def undo_of(changes: Iterable[TableDifference]) -> list[TableDifference]:
    """Return the changes that undo others; a rewritten table is restored instead."""
    return [
        replace(change, before=change.after, after=change.before, sign=None)
        for change in changes
        if not change.rewrite
    ]


def drift_lines(changes: Iterable[TableDifference]) -> list[str]:
    """Return one line of a plan for each change."""
    return [change.line for change in changes if change.sign]


def plan_lines(
    differing: Mapping[str, Iterable[TableDifference]],
    same: Sequence[str],
    foreign: Sequence[str],
    absent: Sequence[str],
) -> list[str]:
    """Return the output of plan_tables.

    `differing` has the changes of each table with drift, `same` the matching tables. `foreign` are
    not Delta tables; `absent` are not built yet.
    """
    shown = {name: lines for name, found in differing.items() if (lines := drift_lines(found))}
    lines = [line for name, changes in shown.items() for line in (name, *changes)]
    if unnoted := len(differing) - len(shown):
        lines.append(f"{unnoted} as declared, without the note of which properties are ours")
    if foreign:
        lines.append(f"no Delta tables, left alone: {', '.join(foreign)}")
    if absent:
        lines.append(f"not built yet: {', '.join(absent)}")
    count = sum(map(len, shown.values()))
    lines.append(f"plan: {count} changes in {len(shown)} tables, {len(same)} as declared")
    return lines


def _shown(value: Value) -> str | None:
    return ", ".join(value) if isinstance(value, tuple) else value


def bare_expression(expression: str) -> str:
    """Return a condition without spaces, brackets and upper case, except in its texts."""
    pieces = re.findall(r"'(?:[^'\\]|\\.)*'|[^']+|'", expression)
    return "".join(
        piece if piece.startswith("'") else re.sub(r"[\s()`]", "", piece.lower())
        for piece in pieces
    )
