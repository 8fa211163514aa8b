"""The facts of a lake: `gather` collects them; page, metrics and events render them.

Moments are UTC, durations are seconds, sizes are bytes. None means unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Literal

# How a run wrote its rows: `append` inserts, `merge` also updates and deletes, `replace` writes
# all.
Way = Literal["append", "merge", "delete", "replace", "other"]
Kind = Literal["stream", "quarantine", "model", "hidden", "seed", "ops", "other"]


@dataclass(frozen=True)
class Batch:
    """A batch of a stream and the moment it ended; `seconds` from its start to both commits."""

    at: datetime
    rows: int
    quarantined: int
    seconds: float


@dataclass(frozen=True)
class Backlog:
    """The unread part of a stream: `number` of `unit` (files or records), and their bytes."""

    number: int
    unit: str
    bytes: int | None = None


@dataclass(frozen=True)
class ReportedStream:
    """A stream: rows in bronze, open records in quarantine by reason, and its backlog.

    `error` is the reason of its last failure. `batches` are the newest ones, oldest first.
    `has_landed` is false if nothing was ever read and the input does not exist. `stale_rows` are
    the rows of the source that its events in quarantine would have changed.
    """

    name: str
    table: str
    source: str
    rows: int | None
    quarantine: Mapping[str, int] | None
    backlog: Backlog | None
    interrupted: bool
    error: str | None
    last_batch: datetime | None
    batches: tuple[Batch, ...] = ()
    settled: int = 0
    has_landed: bool = True
    stale_rows: int | None = None

    @property
    def quarantined(self) -> int | None:
        """Return the number of open records in quarantine."""
        return None if self.quarantine is None else sum(self.quarantine.values())

    @property
    def latency(self) -> float | None:
        """Return the median duration of the newest batches."""
        return median(one.seconds for one in self.batches) if self.batches else None


@dataclass(frozen=True)
class ReportedRun:
    """A commit of rows to a model's table: rows changed at most, and bytes written.

    `expected_bytes` is the prediction from earlier runs of the same way, see `prediction`.
    """

    version: int
    at: datetime
    way: Way
    rows: int
    bytes: int
    expected_bytes: float | None = None


@dataclass(frozen=True)
class ReportedOutcome:
    """dbt's result for a model's last run, with `success`, `error` or another status."""

    status: str
    at: datetime
    seconds: float
    message: str

    @property
    def failed(self) -> bool:
        """Return true if the model was not built."""
        return self.status not in ("success", "no-op", "partial success")


@dataclass(frozen=True)
class Behind:
    """An input with commits of rows that a model has not applied; `since` is the oldest of them."""

    table: str
    applied: int
    newest: int
    rows: int
    since: datetime | None


@dataclass(frozen=True)
class ReportedModel:
    """A model with a table: its maintenance, its runs, oldest first, and unapplied changes.

    `rows` is None if the table does not exist. `runs_every` is the declared value in seconds.
    """

    name: str
    table: str
    strategy: str
    owner: str
    is_built: bool
    rows: int | None = None
    runs: tuple[ReportedRun, ...] = ()
    outcome: ReportedOutcome | None = None
    behind: tuple[Behind, ...] = ()
    runs_every: float | None = None
    reads: tuple[str, ...] = ()

    @property
    def last(self) -> ReportedRun | None:
        """Return the newest run that changed rows."""
        return self.runs[-1] if self.runs else None

    @property
    def waiting_since(self) -> datetime | None:
        """Return the time of the oldest change of an input that the model has not applied."""
        return min((one.since for one in self.behind if one.since), default=None)


@dataclass(frozen=True)
class Need:
    """A reader of a table's changes or files, and the oldest commit that it still needs."""

    reader: str
    since: datetime


@dataclass(frozen=True)
class TableChange:
    """A commit that changed rows of a table: rows changed at most, and bytes written."""

    version: int
    at: datetime
    rows: int
    bytes: int


@dataclass(frozen=True)
class ReportedTable:
    """A Delta table: its files, the steps that its policy requires, and the readers of old files.

    `due` are the steps that `maintain` would take, each with its reason. `kept` is the reason to
    retain files that VACUUM could remove. `retention` is how long files stay after they left the
    table. `place` is its folder; `changes` are the newest ones, oldest first.
    """

    name: str
    place: str
    kind: Kind
    owner: str
    version: int
    rows: int | None
    deleted_rows: int
    files: int
    small_files: int
    bytes: int
    last_change: datetime | None
    retention: float
    due: tuple[tuple[str, str], ...] = ()
    kept: str | None = None
    needs: tuple[Need, ...] = ()
    columns: tuple[tuple[str, str], ...] = ()
    changes: tuple[TableChange, ...] = ()

    @property
    def schema(self) -> str:
        """Return the table's schema."""
        return self.name.partition(".")[0]

    @property
    def deleted_share(self) -> float:
        """Return the share of rows that deletion vectors hide."""
        rows = (self.rows or 0) + self.deleted_rows
        return self.deleted_rows / rows if rows else 0.0

    @property
    def oldest_need(self) -> Need | None:
        """Return the need of the reader that is the furthest behind."""
        return min(self.needs, key=lambda need: need.since, default=None)


@dataclass(frozen=True)
class Evaluation:
    """An expectation that was evaluated on the rows of a run."""

    at: datetime
    rows: int
    broken: int


@dataclass(frozen=True)
class ExpectationHistory:
    """An expectation of a table, with its evaluations, oldest first."""

    table: str
    name: str
    expression: str
    on_failure: str
    evaluations: tuple[Evaluation, ...] = ()

    @property
    def last(self) -> Evaluation | None:
        """Return the newest evaluation."""
        return self.evaluations[-1] if self.evaluations else None


@dataclass(frozen=True)
class Operation:
    """An operation on a table, its user and reason. `state` is its last one, `ended` if it has."""

    id: str
    at: datetime
    operation: str
    table: str
    user: str
    reason: str
    state: str
    ended: datetime | None = None
    version_before: int | None = None
    version_after: int | None = None
    undo: str | None = None


@dataclass(frozen=True)
class Freshness:
    """The last change of a source's rows, and the ages at which dbt warns and fails."""

    table: str
    last_change: datetime | None
    warn_after: float | None = None
    error_after: float | None = None

    def state(self, now: datetime) -> Literal["fresh", "warn", "error", "empty"]:
        """Return the result of dbt's own freshness check for this age."""
        if self.last_change is None:
            return "empty" if self.error_after is None else "error"
        age = (now - self.last_change).total_seconds()
        if self.error_after is not None and age > self.error_after:
            return "error"
        return "warn" if self.warn_after is not None and age > self.warn_after else "fresh"


@dataclass(frozen=True)
class Lake:
    """A lake at a moment. `problems` has one line with its code for each unknown fact.

    `place` is its folder, relative to the project if inside.
    """

    project: str
    target: str
    place: str
    at: datetime
    streams: tuple[ReportedStream, ...] = ()
    models: tuple[ReportedModel, ...] = ()
    tables: tuple[ReportedTable, ...] = ()
    expectations: tuple[ExpectationHistory, ...] = ()
    operations: tuple[Operation, ...] = ()
    freshness: tuple[Freshness, ...] = ()
    problems: tuple[str, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()


def prediction(earlier: Sequence[ReportedRun], way: str, rows: int) -> float | None:
    """Predict the bytes that a run will write in a way, for some changed rows.

    It multiplies the rows by the median bytes a row of earlier runs of that way. It returns None
    before the third run, because two runs do not establish a usual size.
    """
    rates = [run.bytes / run.rows for run in earlier if run.way == way and run.rows]
    return median(rates) * rows if len(rates) >= 2 else None
