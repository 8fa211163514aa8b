"""The findings in a lake that need attention, most severe first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from headwaters.report.facts import Lake, ReportedStream, ReportedTable
from headwaters.report.pages.texts import ago, listed, number

# An operation that has not ended after this time was interrupted.
_LONGEST_OPERATION = timedelta(hours=1)
_RECENT = timedelta(days=7)


@dataclass(frozen=True)
class Attention:
    """A finding: `bad` fails or loses something, `warn` will. The page shows it in `section`."""

    level: Literal["bad", "warn"]
    text: str
    section: str


def attention(lake: Lake) -> list[Attention]:
    """Return all findings, those that are `bad` before the others."""
    found = [
        *_streams(lake),
        *_models(lake),
        *_freshness(lake),
        *_expectations(lake),
        *_operations(lake),
        *_tables(lake),
    ]
    return sorted(found, key=lambda one: one.level)  # bad, warn; otherwise in their order


def _streams(lake: Lake) -> Iterator[Attention]:
    for stream in lake.streams:
        if stream.error:
            yield Attention("bad", f"the stream {stream.name} failed: {stream.error}", "streams")
        elif stream.interrupted:
            yield Attention("warn", f"a batch of {stream.name} is not finished", "streams")
        if stream.quarantined:
            yield Attention("warn", _in_quarantine(stream), "streams")


def _in_quarantine(stream: ReportedStream) -> str:
    are = "is" if stream.quarantined == 1 else "are"
    text = f"{number(stream.quarantined or 0, 'record')} of {stream.name} {are} in quarantine"
    last = stream.batches[-1] if stream.batches else None
    if last and last.quarantined:
        text += f", {last.quarantined:,} of {last.rows + last.quarantined:,} of the last batch"
    if stream.stale_rows:
        text += f"; {number(stream.stale_rows, 'row')} of its source may be stale"
    return text


def _models(lake: Lake) -> Iterator[Attention]:
    unbuilt = []
    for model in lake.models:
        if model.outcome and model.outcome.failed and model.outcome.status != "skipped":
            yield Attention("bad", f"{model.table} failed: {model.outcome.message}", "models")
        elif not model.is_built:
            unbuilt.append(model.table)
        since = model.waiting_since
        if since and model.runs_every and (lake.at - since).total_seconds() > model.runs_every:
            tables = listed([one.table for one in model.behind])
            text = f"{model.table} has not applied changes of {tables}, made {ago(since, lake.at)}"
            yield Attention("warn", text, "models")
    if unbuilt:
        are = "is" if len(unbuilt) == 1 else "are"
        yield Attention("warn", f"{listed(unbuilt, 3)} {are} not built yet", "models")


def _freshness(lake: Lake) -> Iterator[Attention]:
    for one in lake.freshness:
        state = one.state(lake.at)
        if state in ("warn", "error"):
            since = ago(one.last_change, lake.at)
            rows = f"its rows last changed {since}" if one.last_change else "it has no rows yet"
            text = f"{one.table} is stale: {rows}"
            yield Attention("bad" if state == "error" else "warn", text, "freshness")


def _expectations(lake: Lake) -> Iterator[Attention]:
    for one in lake.expectations:
        if one.last and one.last.broken:
            rows = f"{one.last.broken:,} of {number(one.last.rows, 'row')}"
            text = f"{rows} did not meet {one.name} of {one.table} ({one.on_failure})"
            yield Attention("bad" if one.on_failure == "fail" else "warn", text, "expectations")


def _operations(lake: Lake) -> Iterator[Attention]:
    for one in lake.operations:
        age = lake.at - one.at
        if one.state == "failed" and age < _RECENT:
            text = f"{one.operation} of {one.table} failed {ago(one.at, lake.at)}"
            yield Attention("bad", text, "operations")
        elif one.state == "started" and _LONGEST_OPERATION < age < _RECENT:
            text = f"{one.operation} of {one.table} began {ago(one.at, lake.at)} and has not ended"
            yield Attention("warn", text, "operations")


def _tables(lake: Lake) -> Iterator[Attention]:
    for table in lake.tables:
        need = table.oldest_need
        if need and (lake.at - need.since).total_seconds() > table.retention:
            text = f"{need.reader} needs changes of {table.name} made {ago(need.since, lake.at)}"
            yield Attention("bad", f"{text}, longer ago than it retains files", "tables")
    yield from _due([table for table in lake.tables if table.kind != "ops"], "")
    # `maintain` includes the tables of operations only if `select` names them
    records = [table for table in lake.tables if table.kind == "ops"]
    yield from _due(records, " --args '{select: ops}'")


def _due(tables: Sequence[ReportedTable], arguments: str) -> Iterator[Attention]:
    """Yield a finding with the command for those tables that are due for maintenance."""
    due = [table.name for table in tables if table.due]
    if due:
        are = "is" if len(due) == 1 else "are"
        text = f"{listed(due)} {are} due for maintenance: `dbt run-operation maintain{arguments}`"
        yield Attention("warn", text, "tables")
