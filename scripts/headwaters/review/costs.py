"""Predict the cost of runs by the log of the table and by sizes. Pure.

The log says how long an incremental run wrote, from its note that it begins, and how many rows and
bytes. The bytes of a rebuild follow the rows of the table; its time is that of the base's full
computation in this review, if the review made one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from headwaters.incremental.commits import Commit
from headwaters.incremental.recovery import noted_run
from headwaters.pages.texts import duration, size
from headwaters.review.facts import Cost, Difference, Effort

MOST_RUNS = 10  # the last ones, by which the next is predicted
UNKNOWN = "no run to go by"
_WRITTEN = ("numOutputBytes", "numTargetBytesAdded")


@dataclass(frozen=True)
class Past:
    """What is known of a table of production: its commits, newest first, rows and bytes.

    `bytes_read`: the size of the tables that its model reads.
    """

    commits: Sequence[Commit] = ()
    rows: int = 0
    size: int | None = None
    bytes_read: int | None = None


@dataclass(frozen=True)
class Run:
    """An incremental run: rows that changed at most, bytes written, seconds from its note."""

    rows: int
    bytes: int
    seconds: float


def runs_of(commits: Sequence[Commit]) -> list[Run]:
    """The last incremental runs of a table, by its commits, newest first."""
    return list(_runs(commits))[:MOST_RUNS]


def _runs(commits: Sequence[Commit]) -> Iterator[Run]:
    for place, commit in enumerate(commits):
        if not commit.effect.rows or commit.replaces_all:
            continue
        earlier = commits[place + 1 :]
        begun = next((one for one in earlier if noted_run(one) or one.effect.rows), None)
        if begun is not None and noted_run(begun):
            written = sum(int(commit.metrics.get(name) or 0) for name in _WRITTEN)
            yield Run(commit.effect.rows, written, (commit.at - begun.at) / 1000)


def of_a_run(past: Past, rows: int | None = None) -> Effort | None:
    """What an incremental run over some rows will cost, over as many as usual where it is None."""
    runs = runs_of(past.commits)
    if not runs:
        return None
    per_row = median(run.bytes / run.rows for run in runs)
    usual = round(median(run.rows for run in runs)) if rows is None else rows
    last = "its last run" if len(runs) == 1 else f"the median of its last {len(runs)} runs"
    seconds = median(run.seconds for run in runs)
    return Effort(round(seconds, 1), round(per_row * usual), None, f"{last}, without planning")


def of_a_rebuild(past: Past, found: Difference | None, seconds: float | None) -> Effort | None:
    """What a rebuild to some rows will cost; `seconds`: those of the base's, where it was made."""
    if past.size is None or not past.rows or found is None:
        return None
    written = round(past.size / past.rows * found.rows_after)
    basis = "the sizes of the table and of what it reads"
    if seconds is not None:
        basis += ", the time of the base's full computation"
        return Effort(seconds, written, past.bytes_read, basis)
    return Effort(None, written, past.bytes_read, basis)


def predicted(effort: Effort | None) -> str:
    """A prediction in words: `2.1 s, 12 kB written, by its last run`."""
    if effort is None:
        return UNKNOWN
    time = f"{UNKNOWN} for its time" if effort.seconds is None else duration(effort.seconds)
    return f"{time}, {_bytes(effort)}, by {effort.basis}"


def measured(effort: Effort | None) -> str:
    """What was measured in words, `4.0 s, 20 kB written`; nothing where it was not."""
    if effort is None or effort.seconds is None:
        return ""
    return ", ".join(filter(None, (duration(effort.seconds), _bytes(effort))))


def _bytes(effort: Effort) -> str:
    parts = ((effort.bytes_written, "written"), (effort.bytes_read, "read"))
    return ", ".join(f"{size(count)} {what}" for count, what in parts if count is not None)


def lines(cost: Cost) -> list[tuple[str, str, str]]:
    """What is said of both runs: which, predicted, measured."""
    found = [("next run", predicted(cost.next_predicted), measured(cost.next_measured))]
    if cost.one_off != "nothing":
        once = Effort(cost.seconds, cost.bytes_written)
        found.insert(0, ("one-off", predicted(cost.predicted), measured(once)))
    return found
