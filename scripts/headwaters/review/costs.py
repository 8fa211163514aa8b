"""The expected costs of a table's runs, from its log and from sizes. Pure.

The log has the duration, rows and bytes of incremental runs, from their begin notes. The bytes of a
rebuild are proportional to the table's rows. Its time is that of the base's full computation, if
this review made one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from headwaters.report.pages.texts import duration, size
from headwaters.review.facts import Cost, Difference, Effort
from headwaters.runs.recovery import noted_run
from headwaters.tables.commits import Commit

MOST_RUNS = 10  # the next run is predicted from this many
UNKNOWN = "no run to go by"
_WRITTEN = ("numOutputBytes", "numTargetBytesAdded")


@dataclass(frozen=True)
class Past:
    """The history of a production table: its commits, newest first, rows and bytes.

    `bytes_read` is the size of the tables that its model reads.
    """

    commits: Sequence[Commit] = ()
    rows: int = 0
    size: int | None = None
    bytes_read: int | None = None


@dataclass(frozen=True)
class IncrementalRun:
    """An incremental run: rows changed at most, bytes written, seconds since its begin note."""

    rows: int
    bytes: int
    seconds: float


def runs_of(commits: Sequence[Commit]) -> list[IncrementalRun]:
    """Return the last incremental runs of a table from its commits, newest first."""
    return list(_runs(commits))[:MOST_RUNS]


def _runs(commits: Sequence[Commit]) -> Iterator[IncrementalRun]:
    for place, commit in enumerate(commits):
        if not commit.effect.rows or commit.replaces_all:
            continue
        earlier = commits[place + 1 :]
        begun = next((one for one in earlier if noted_run(one) or one.effect.rows), None)
        if begun is not None and noted_run(begun):
            written = sum(int(commit.metrics.get(name) or 0) for name in _WRITTEN)
            yield IncrementalRun(commit.effect.rows, written, (commit.at - begun.at) / 1000)


def of_a_run(past: Past, rows: int | None = None) -> Effort | None:
    """Return the cost of an incremental run over some rows, or over the usual number if None."""
    runs = runs_of(past.commits)
    if not runs:
        return None
    per_row = median(run.bytes / run.rows for run in runs)
    usual = round(median(run.rows for run in runs)) if rows is None else rows
    last = "its last run" if len(runs) == 1 else f"the median of its last {len(runs)} runs"
    seconds = median(run.seconds for run in runs)
    return Effort(round(seconds, 1), round(per_row * usual), None, f"{last}, without planning")


def of_a_rebuild(past: Past, found: Difference | None, seconds: float | None) -> Effort | None:
    """Return the cost of a rebuild to some rows. `seconds` is the base's, if it was measured."""
    if past.size is None or not past.rows or found is None:
        return None
    written = round(past.size / past.rows * found.rows_after)
    basis = "the sizes of the table and of what it reads"
    if seconds is not None:
        basis += ", the time of the base's full computation"
        return Effort(seconds, written, past.bytes_read, basis)
    return Effort(None, written, past.bytes_read, basis)


def predicted(effort: Effort | None) -> str:
    """Return a prediction as text: `2.1 s, 12 kB written, by its last run`."""
    if effort is None:
        return UNKNOWN
    time = f"{UNKNOWN} for its time" if effort.seconds is None else duration(effort.seconds)
    return f"{time}, {_bytes(effort)}, by {effort.basis}"


def measured(effort: Effort | None, wrote: str = "written") -> str:
    """Return a measurement as text, `4.0 s, 20 kB written`, or nothing if there is none."""
    if effort is None or effort.seconds is None:
        return ""
    return ", ".join(filter(None, (duration(effort.seconds), _bytes(effort, wrote))))


def _bytes(effort: Effort, wrote: str = "written") -> str:
    parts = ((effort.bytes_written, wrote), (effort.bytes_read, "read"))
    return ", ".join(f"{size(count)} {what}" for count, what in parts if count is not None)


def lines(cost: Cost) -> list[tuple[str, str, str]]:
    """Return a line for each of the two runs: its name, the prediction, the measurement."""
    found = [("next run", predicted(cost.next_predicted), measured(cost.next_measured, "staged"))]
    if cost.one_off != "nothing":
        once = Effort(cost.seconds, cost.bytes_written)
        found.insert(0, ("one-off", predicted(cost.predicted), measured(once)))
    return found
