"""The runs of production's tables: the next one, as dbt announces it, and those in their logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from headwaters.analysis import strategy_of
from headwaters.review.build_sides import BothSides
from headwaters.review.compare_sides import Rows, size_of
from headwaters.review.costs import Past
from headwaters.review.dbt_runs import BuildOutcome, explained, redirected
from headwaters.review.sides import inputs
from headwaters.review.spark import COMMITS

# This prefix marks a run that patches the table to changed SQL, with the reason.
_PATCH = "patch: "


@dataclass(frozen=True)
class NextRun:
    """The action of a table's next run, and its reason."""

    action: str
    reason: str


def next_runs(sides: BothSides) -> Iterator[tuple[str, NextRun]]:
    """Yield the next run in production of each changed model, by id.

    If the branch's run continued from a clone of production's table, its line has the answer.
    """
    head, manifest = sides.head, None
    for key, own in sides.changes.changed.items():
        node = head.side.nodes.get(key)
        if node is None or not own.rows or key not in sides.base.side.nodes:
            continue
        if node["resource_type"] != "model" or not strategy_of(node["config"]):
            continue
        outcome = head.outcomes.get(key)
        if key in head.continued and outcome and outcome.is_built:
            yield key, _told(outcome)
            continue
        manifest = manifest or redirected(head.side.manifest, {})
        text: Any = explained(head.side.project, manifest, node["name"])
        if text and (line := text.rpartition("next run: ")[2].strip()):
            yield key, _announced(line)


def _announced(line: str) -> NextRun:
    """Parse a line of `explain_refresh` into the next run's action and its reason."""
    if line.startswith(_PATCH):
        return NextRun("patch", line.removeprefix(_PATCH))
    choice, _, reason = line.partition(", ")
    return NextRun(choice, reason)


def _told(outcome: BuildOutcome) -> NextRun:
    """Parse a run's message into its action and its reason."""
    replaced = re.fullmatch(r"replace: \d+ rows, [^,]+, (.*)", outcome.message)
    if replaced:
        return NextRun("replace", replaced[1])
    if outcome.message.startswith(_PATCH):
        return NextRun("patch", outcome.message.removeprefix(_PATCH))
    return NextRun("skip" if outcome.did == "skip" else "incremental", outcome.message)


def past_runs(sides: BothSides, compared: Mapping[str, Rows]) -> Iterator[tuple[str, Past]]:
    """Yield the past runs of the compared tables from production's logs, by id."""
    sizes: dict[str, int | None] = {}

    def size(table: str) -> int | None:
        if table not in sizes:
            sizes[table] = size_of(sides.spark, table)
        return sizes[table]

    side = sides.base.side
    for key in sides.head.keys:
        rows = compared.get(key)
        if key not in side.nodes or rows is None or rows.difference is None:
            continue
        name, known = side.table(key), sides.tables.get(key)
        try:
            commits = known.commits if known else sides.spark.history(name, COMMITS)
        except DbtRuntimeError:
            continue  # not a Delta table, or never built
        read = [size(side.table(parent)) for parent in inputs([key], side)]
        whole = None if None in read else sum(filter(None, read))
        before = rows.difference.rows_before
        yield key, Past(commits, before, size(name), whole)
