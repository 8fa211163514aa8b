"""`headwaters streams`: every stream's state, from disk and its source, without a running query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table

from headwaters.platform.checkpoint import Pending
from headwaters.platform.errors import CodedError
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract
from headwaters.streams.ingestion.inputs import refresh_backlog, source_of
from headwaters.streams.quarantine import counted
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import snapshot

_UNCUT = 10_000  # columns of a pipe or a file, where no name may be cut


@dataclass(frozen=True)
class Status:
    """One stream: its source, its written rows, its backlog, and its last error.

    `quarantined` are the open records in quarantine, without the settled ones. Of a stream with
    `changes`, `stale_rows` are the rows of its source that they would have changed.

    `pending` is None if unknown. `interrupted` is true if a batch was planned and not completed.
    `has_landed` is false if nothing was ever read and the input does not exist: no error.
    `failed_at` is the time of a failed run, and None if the error is the source's at this moment.
    """

    name: str
    source: str
    batches: int
    position: str
    last: datetime | None
    rows: int | None
    quarantined: int | None
    bytes: int
    pending: Pending | None
    interrupted: bool
    error: str | None
    settled: int = 0
    stale_rows: int | None = None
    has_landed: bool = True
    failed_at: datetime | None = None

    @property
    def behind(self) -> str:
        """Return the backlog as text."""
        if not self.has_landed:
            return "never landed"
        known = "unknown" if self.pending is None else str(self.pending)
        return f"{known}{', an interrupted batch' * self.interrupted}"


def status(project: Project, contract: Contract) -> Status:
    """Return the state of one stream. If its source does not answer, that is its error."""
    stream = Stream.of(project, contract)
    bronze, quarantine = snapshot(stream.bronze), snapshot(stream.quarantine)
    bad = counted(stream.quarantine)
    position, has_landed, failed_at = "", True, None
    try:
        refresh_backlog(stream)
        position = source_of(stream).position() if stream.checkpoint.committed >= 0 else ""
        error, failed_at = stream.checkpoint.error, stream.checkpoint.failed_at
    except CodedError as problem:
        is_used = stream.checkpoint.committed >= 0 or bronze is not None
        has_landed = is_used or problem.code != "HW_NO_INPUT"
        stream.pending, error = None, str(problem) if has_landed else None
    return Status(
        name=contract.name,
        source=source_of(stream).describe(),
        batches=stream.checkpoint.committed + 1,
        position=position,
        last=stream.checkpoint.committed_at,
        rows=bronze.rows if bronze else 0,
        quarantined=bad.open if bad else None,
        bytes=sum(table.bytes for table in (bronze, quarantine) if table),
        pending=stream.pending,
        interrupted=stream.checkpoint.unfinished,
        error=error,
        settled=bad.settled if bad else 0,
        stale_rows=bad.rows if bad else None,
        has_landed=has_landed,
        failed_at=failed_at,
    )


def show(states: Sequence[Status], console: Console | None = None) -> None:
    """Print the streams as a table, and their errors below it."""
    table = Table(box=None, pad_edge=False)
    for title in ("stream", "source"):
        table.add_column(title, overflow="fold")
    for title in ("batches", "rows", "quarantined", "MB"):
        table.add_column(title, justify="right", overflow="fold")
    for title in ("read up to", "behind", "last batch"):
        table.add_column(title, overflow="fold")
    now = datetime.now(UTC)
    for state in states:
        table.add_row(
            state.name,
            state.source,
            f"{state.batches:,}",
            "?" if state.rows is None else f"{state.rows:,}",
            _quarantined(state),
            f"{state.bytes / 1e6:,.1f}",
            state.position,
            state.behind,
            ago(state.last, now),
            style=None if state.has_landed else "bright_black",
        )
    console = console or Console()
    if not console.is_terminal:
        console.width = _UNCUT
    console.print(table)
    for state in states:
        if state.error:
            when = f" failed {ago(state.failed_at, now)}" if state.failed_at else ""
            console.print(f"{state.name}{when}: {state.error}", markup=False, soft_wrap=True)


def _quarantined(state: Status) -> str:
    if state.quarantined is None:
        return "?"
    what = "row" if state.stale_rows == 1 else "rows"
    rows = f", {state.stale_rows:,} {what} stale" if state.stale_rows else ""
    return f"{state.quarantined:,}{rows}"


def as_json(states: Sequence[Status]) -> str:
    """Return the streams as a JSON array, with times in UTC."""
    found = [
        asdict(state)
        | {
            "last": state.last and state.last.isoformat(),
            "failed_at": state.failed_at and state.failed_at.isoformat(),
            "pending": state.pending and asdict(state.pending),
        }
        for state in states
    ]
    return json.dumps(found, indent=2, ensure_ascii=False)


def ago(then: datetime | None, now: datetime) -> str:
    """Return the time since a moment, in the largest unit that fits."""
    if then is None:
        return "never"
    seconds = max(0, int((now - then).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"
