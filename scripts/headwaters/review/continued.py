"""Production's tables as where a review's tables begin.

A clone of a table has its rows at a version, and says which versions of its inputs are applied,
under production's names. Told in the names of the review's own tables, dbt continues from there: it
does nothing where nothing differs, and applies what the clone of an input has changed since. So a
table of the base costs a clone, and a table downstream of a change what the change changes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from dbt_common.exceptions import DbtRuntimeError

from headwaters.declared.nodes import Node, setting
from headwaters.incremental.commits import Commit
from headwaters.incremental.recovery import Inputs, applied_versions
from headwaters.incremental.strategies import strategy_of
from headwaters.review.build import COMMITS, Spark
from headwaters.sql import literal, renamed


@dataclass(frozen=True)
class Table:
    """A table of production as runs of its model left it: its version, and what it has applied.

    `commits` are its newest, newest first.
    """

    name: str
    version: int
    inputs: Inputs
    properties: Mapping[str, str]
    commits: Sequence[Commit]


@dataclass(frozen=True)
class Begun:
    """A table of the review that was cloned: its commit (`version`, `at`), and of which table."""

    name: str
    version: int
    at: int
    source: str
    source_version: int


def can_continue(node: Node) -> bool:
    """Whether runs of a model say what they have applied, and a rebuild loses nothing."""
    strategy = strategy_of(node["config"])
    if node["config"].get("materialized") != "incremental" or strategy is None:
        return False
    if strategy.keeps_past:
        return False
    on_gap = setting(node["config"], "on_gap") or strategy.on_gap
    return "fail" not in (on_gap, setting(node["config"], "on_foreign_write"))


def table_of(spark: Spark, name: str) -> Table | None:
    """A table of production; None where something else than its model's runs has changed it."""
    try:
        commits = spark.history(name, COMMITS)
        properties = spark.properties(name)
        if spark.history(name, 1)[0].version != commits[0].version:
            return None  # it moves: what it says may be of another version
    except (DbtRuntimeError, IndexError):
        return None
    applied = applied_versions(properties, commits, len(commits) < COMMITS)
    if applied is None or applied.inputs is None or applied.foreign or applied.interrupted:
        return None
    standing = takewhile(lambda commit: not commit.replaces_all, commits)
    if any(commit.effect.rows and commit.is_operation for commit in standing):
        return None  # a repair: its SQL gives other rows
    return Table(name, commits[0].version, applied.inputs, properties, commits)


def notes_of(properties: Mapping[str, str]) -> dict[str, str]:
    """What runs of its model have noted in the properties of a table."""
    return {name: text for name, text in properties.items() if name.startswith("headwaters.")}


def are_same(commits: Iterable[Commit], one: Mapping[str, int], version: int) -> bool:
    """Whether a table has the same rows and columns at a noted commit and at a version."""
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
    spark: Spark, table: Table, names: Mapping[str, str], begun: Mapping[str, Begun]
) -> dict[str, str] | None:
    """What a clone of a table has to say of itself, as properties; None where it cannot.

    `names`: the tables that the review reads elsewhere, in lower case, and where; `begun`: those
    that were cloned. The applied version of an input has to be the one that was cloned.
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
    spark: Spark, table: Table, place: str, properties: Mapping[str, str], statement: str = ""
) -> Begun | None:
    """Clone a table with other properties, and run `statement` on the clone; None where it fails.

    What is begun is the clone: what the statement changes are changes of it.
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
