"""What runs of a table took, and what its next run is expected to take: its costs. Pure.

A table keeps them in a property, written by statements that a run has anyway. An incremental run
notes its seconds and its changed input rows when it advances the applied versions. A replacement
is one commit, which can only note when it began: the next run, which reads the table's commits in
any case, knows by the time of that commit how long it took. Both are counted from when a plan is
carried out; planning costs both the same.

Runs over about as many rows, those whose number has as many digits, are one measurement: the mean
of their rows and seconds, in which a new run has a weight of one third. So the property stays
small, many small runs do not displace a large one, and what was true once fades. What no run has
measured for 30 days is discarded: a table does not try the way that it takes to be dearer, so a
measurement that was wrong, or is of another machine, decides for 30 days at most. A full refresh
that was asked for, and one of other SQL, begin with no history.

Costs are hints: either way of writing is right. What cannot be read is no history. They may be a
copied or restored table's, or of an engine whose clock is not dbt's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeGuard

from headwaters.incremental.commits import Commit, Range, as_mapping
from headwaters.incremental.recovery import is_of

NOTE = "headwaters.costs"

WEIGHT_OF_NEWEST = 1 / 3
MOST_SECONDS_OLD = 30 * 86_400
# Beyond, what was measured says nothing: so many times as many rows, or as few.
FARTHEST = 4.0
# A run over no rows is taken for half of the least that was measured, with this weight: so that
# runs of one size tell what those of another size take.
WEIGHT_OF_ASSUMED = 0.1
# The time of a commit is the engine's, that of its beginning dbt's.
LEAST_SECONDS, MOST_SECONDS = 0.1, 10 * 86_400

# What a run did: replace the table, apply rows that were only inserted, or any changes. New rows
# are appended, which costs much less.
Way = Literal["replaced", "inserts", "changes"]
WAYS: tuple[Way, ...] = ("replaced", "inserts", "changes")
_SHOWN: dict[Way, str] = {
    "replaced": "replacement of {} rows",
    "inserts": "incremental run over {} inserted rows",
    "changes": "incremental run over {} changed rows",
}


@dataclass(frozen=True)
class Measured:
    """What runs over about as many rows took: means, and when the newest ended, in seconds."""

    runs: int
    rows: float
    seconds: float
    at: int

    def counts(self, now: int) -> bool:
        """Whether it is recent; what is of the future is of another clock."""
        return abs(now - self.at) <= MOST_SECONDS_OLD

    def with_run(self, rows: int, seconds: float, at: int) -> Measured:
        """With one more run; one that is too old to count is replaced by it."""
        if not self.counts(at):
            return Measured(1, rows, seconds, at)
        return Measured(
            self.runs + 1,
            self.rows + (rows - self.rows) * WEIGHT_OF_NEWEST,
            self.seconds + (seconds - self.seconds) * WEIGHT_OF_NEWEST,
            at,
        )


@dataclass(frozen=True)
class Begun:
    """A replacement of which only the beginning is noted: its run, and when, in milliseconds."""

    run: str
    at: int


@dataclass(frozen=True)
class Costs:
    """What a table notes of its runs.

    `rows` of the table, counted from its last replacement on, or None; what was measured by way,
    and by the digits of the number of rows: of the table for a replacement, otherwise of the
    changed input rows; and the replacement that is not measured yet. Without all of it: no history.
    """

    rows: int | None = None
    measured: Mapping[tuple[Way, int], Measured] = field(default_factory=dict)
    begun: Begun | None = None

    def of(self, way: Way) -> list[Measured]:
        """What was measured of a way, fewest rows first."""
        found = sorted(self.measured.items())
        return [one for (of_way, _), one in found if of_way == way]

    def with_run(self, way: Way, rows: int, seconds: float, at: int) -> Costs:
        """With a run of a way over some rows that ended at a moment, in seconds."""
        if not _is_length(seconds):
            return self
        known, place = dict(self.measured), (way, len(str(rows)))
        before = known.get(place)
        seconds = max(seconds, LEAST_SECONDS)
        first = Measured(1, rows, seconds, at)
        known[place] = before.with_run(rows, seconds, at) if before else first
        return replace(self, measured=known)


@dataclass(frozen=True)
class Predicted:
    """What a run over some rows is expected to take by either way, in seconds.

    None where nothing like it was measured. `runs`: how many the lesser of both goes by.
    """

    incremental: float | None = None
    replacement: float | None = None
    runs: int = 0


def costs_of(properties: Mapping[str, str], commits: Sequence[Commit]) -> Costs:
    """The costs of a table, by its properties and its newest commits.

    With the last replacement, which is measured by its commit where that is one of these.
    """
    costs = parsed(properties.get(NOTE))
    begun = costs.begun
    if begun is None:
        return costs
    costs = replace(costs, begun=None)
    for commit in commits:
        if commit.replaces_all and is_of(commit, begun.run):
            rows = commit.metrics.get("numOutputRows", "")
            if not rows.isdecimal():
                break
            seconds = (commit.at - begun.at) / 1000
            known = replace(costs, rows=int(rows))
            return known.with_run("replaced", int(rows), seconds, commit.at // 1000)
    return replace(costs, rows=None)


def parsed(text: str | None) -> Costs:
    """Costs as a property has them; without what cannot be read."""
    noted = as_mapping(text)
    known = dict(_measured(noted))
    begun, rows = noted.get("begun"), noted.get("rows")
    costs = Costs(int(rows) if _is_number(rows) and rows >= 0 else None, known)
    if isinstance(begun, list) and len(begun) == 2 and _is_number(begun[1]):
        return replace(costs, begun=Begun(str(begun[0]), int(begun[1])))
    return costs


def _measured(noted: Mapping[str, Any]) -> Iterable[tuple[tuple[Way, int], Measured]]:
    for way in WAYS:
        found = noted.get(way)
        for values in found if isinstance(found, list) else []:
            if not (isinstance(values, list) and len(values) == 4 and all(map(_is_number, values))):
                continue
            runs, rows, seconds, at = values
            if runs >= 1 and rows >= 0 and _is_length(seconds):
                place = way, len(str(int(rows)))
                yield place, Measured(int(runs), rows, max(seconds, LEAST_SECONDS), int(at))


def _is_length(seconds: float) -> bool:
    return 0 < seconds < MOST_SECONDS


def _is_number(value: Any) -> TypeGuard[float]:
    # json reads NaN and Infinity, too
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) < 1e15


def noted(costs: Costs) -> str:
    """The text of a property with these costs."""
    text: dict[str, Any] = {"rows": costs.rows}
    for way in WAYS:
        measured = [
            [one.runs, int(one.rows), max(round(one.seconds, 1), LEAST_SECONDS), one.at]
            for one in costs.of(way)
        ]
        if measured:
            text[way] = measured
    if costs.begun:
        text["begun"] = [costs.begun.run, costs.begun.at]
    return json.dumps(text)


def way_of_ranges(ranges: Iterable[Range]) -> Way:
    """What an incremental run over these ranges does."""
    return "inserts" if all(one.inserts_only for one in ranges) else "changes"


def with_incremental(
    costs: Costs,
    way: Way,
    rows: int,
    growth: int,
    began: int,
    now: int,
) -> Costs:
    """With an incremental run over changed input rows, which began and ended, in milliseconds.

    `growth`: how many rows more the table has.
    """
    if costs.rows is not None:
        costs = replace(costs, rows=max(costs.rows + growth, 0))
    return costs.with_run(way, rows, (now - began) / 1000, now // 1000)


def with_replacement(costs: Costs, run: str, began: int) -> Costs:
    """With a replacement that a run makes, and began at a moment, in milliseconds."""
    return replace(costs, rows=None, begun=Begun(run, began))


def predicted(costs: Costs, way: Way, rows: int, now: int) -> Predicted:
    """What a run over so many changed input rows is expected to take; `now` in milliseconds.

    `way` is that of the incremental run.
    """
    applied = [one for one in costs.of(way) if one.counts(now // 1000)]
    replaced = [one for one in costs.of("replaced") if one.counts(now // 1000)]
    return Predicted(
        _seconds(applied, rows),
        None if costs.rows is None else _seconds(replaced, costs.rows),
        min(sum(one.runs for one in applied), sum(one.runs for one in replaced)),
    )


def _seconds(measured: Sequence[Measured], rows: int) -> float | None:
    """Fixed seconds and seconds for each row, as they come nearest to what was measured.

    Nearest by parts of the seconds, so that small runs count as much as large ones.
    """
    if not any(_is_near(max(one.rows, 1), max(rows, 1)) for one in measured):
        return None
    least = min(measured, key=lambda one: one.rows)
    points = [(1 / one.seconds**2, one.rows, one.seconds) for one in measured]
    half = least.seconds / 2
    points.append((WEIGHT_OF_ASSUMED / half**2, 0.0, half))
    weight = sum(w for w, _, _ in points)
    mean = sum(w * x for w, x, _ in points) / weight
    mean_seconds = sum(w * y for w, _, y in points) / weight
    spread = sum(w * (x - mean) ** 2 for w, x, _ in points)
    together = sum(w * (x - mean) * (y - mean_seconds) for w, x, y in points)
    slope = max(together / spread, 0.0) if spread else 0.0
    fixed = mean_seconds - slope * mean
    if fixed < 0:  # all of it is for rows
        fixed = 0.0
        slope = sum(w * x * y for w, x, y in points) / sum(w * x * x for w, x, _ in points)
    return fixed + slope * rows


def _is_near(measured: float, rows: float) -> bool:
    return measured / FARTHEST <= rows <= measured * FARTHEST


def cost_lines(costs: Costs, way: Way, rows: int, now: int) -> list[str]:
    """Costs in words, for people: what was measured, and what is expected of the next run."""
    lines = []
    for known in WAYS:
        for one in costs.of(known):
            runs = "1 run" if one.runs == 1 else f"{one.runs} runs"
            lines.append(f"{_SHOWN[known].format(int(one.rows))}: {shown(one.seconds)} ({runs})")
    if lines and rows:
        next_run = predicted(costs, way, rows, now)
        lines.append(
            f"predicted for {rows} rows: incremental {shown(next_run.incremental)}, "
            f"replacement {shown(next_run.replacement)}"
        )
    return lines


def shown(seconds: float | None) -> str:
    """Seconds for people: `4.2 s`, or that they are not known."""
    return "unknown" if seconds is None else f"{seconds:.1f} s"
