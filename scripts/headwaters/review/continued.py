"""Production's tables as a starting point for the tables of a review.

A clone of a table has its rows at a version, and the applied versions of its inputs under
production's names. The review renames these inputs to its own tables, so that dbt continues from
there. A run then skips tables without changes and applies the changes of cloned inputs. A table of
the base costs only a clone. A table downstream of a change costs only the changed rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.platform.nodes import Node
from headwaters.platform.sql import literal, renamed
from headwaters.review.spark import COMMITS, Spark
from headwaters.runs.recovery import Inputs, applied_versions
from headwaters.tables.commits import Commit
from headwaters.tables.settings import ModelSettings


@dataclass(frozen=True)
class ProductionTable:
    """A table of production after a run of its model: its version and its applied versions.

    `commits` are its newest, newest first.
    """

    name: str
    version: int
    inputs: Inputs
    properties: Mapping[str, str]
    commits: Sequence[Commit]


@dataclass(frozen=True)
class Begun:
    """A cloned table of the review: its commit (`version`, `at`) and the table it is a clone of."""

    name: str
    version: int
    at: int
    source: str
    source_version: int


def can_continue(node: Node) -> bool:
    """Return true if the model's table notes applied versions and a rebuild loses nothing."""
    strategy = strategy_of(node["config"])
    if node["config"].get("materialized") != "incremental" or strategy is None:
        return False
    if strategy.keeps_past:
        return False
    settings = ModelSettings.of(node["config"])
    return "fail" not in (settings.on_gap or strategy.on_gap, settings.on_foreign_write)


def table_of(spark: Spark, name: str) -> ProductionTable | None:
    """Return a table of production, or None if anything except runs of its model has changed it."""
    try:
        commits = spark.history(name, COMMITS)
        properties = spark.properties(name)
        if spark.history(name, 1)[0].version != commits[0].version:
            return None  # it changes now: its state may be of another version
    except (DbtRuntimeError, IndexError):
        return None
    applied = applied_versions(properties, commits, len(commits) < COMMITS)
    if applied is None or applied.inputs is None or applied.foreign or applied.interrupted:
        return None
    standing = takewhile(lambda commit: not commit.replaces_all, commits)
    if any(commit.effect.rows and commit.is_operation for commit in standing):
        return None  # an operator repaired it: its SQL gives other rows
    return ProductionTable(name, commits[0].version, applied.inputs, properties, commits)


def notes_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the notes of a model's runs in the properties of its table."""
    return {name: text for name, text in properties.items() if name.startswith("headwaters.")}


def are_same(commits: Iterable[Commit], one: Mapping[str, int], version: int) -> bool:
    """Return true if a table's rows and columns at a noted commit equal those at a version."""
    if one["version"] == version:
        return True
    if one["version"] > version:
        return False
    for commit in commits:
        if commit.version == one["version"]:
            return commit.is_same(one)
        if commit.version <= version and not commit.is_without_effect:
            return False
    return False


def state_of(
    spark: Spark, table: ProductionTable, names: Mapping[str, str], begun: Mapping[str, Begun]
) -> dict[str, str] | None:
    """Return the properties that describe a clone's state, or None if that state is unknown.

    `names` maps the tables that the review reads elsewhere, in lower case, to their clones; `begun`
    has the cloned tables. The applied version of an input must equal the version that was cloned.
    """
    inputs: Inputs = {}
    for source, noted in table.inputs.items():
        if source.lower() not in names:
            inputs[source] = noted
            continue
        place = begun.get(source.lower())
        if place is None:
            return None
        if noted["version"] != place.source_version:
            commits = spark.history(place.source, COMMITS)
            if not are_same(commits, noted, place.source_version):
                return None
        inputs[place.name] = {"version": place.version, "at": place.at}
    ours = notes_of(table.properties)
    told = {name: renamed(text, names) for name, text in ours.items()}
    told["headwaters.inputs"] = json.dumps(inputs)
    return {name: text for name, text in told.items() if text != ours.get(name)}


def begin(
    spark: Spark,
    table: ProductionTable,
    place: str,
    properties: Mapping[str, str],
    statement: str = "",
) -> Begun | None:
    """Clone a table with other properties and run `statement` on the clone; None if it fails.

    `Begun` describes the clone alone: the statement's changes count as later changes.
    """
    assigned = ", ".join(f"{literal(name)} = {literal(text)}" for name, text in properties.items())
    failed = spark.tried(
        f"create table {place} shallow clone {table.name} version as of {table.version}"
        + (f" tblproperties ({assigned})" if assigned else "")
    )
    if failed:
        return None
    first = spark.history(place, 1)[0]
    if statement and spark.tried(statement):
        spark.tried(f"drop table {place}")
        return None
    return Begun(place, first.version, first.at, table.name, table.version)
