"""The state of a lake as one self-contained HTML page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from headwaters.report.attention import Attention, attention
from headwaters.report.facts import (
    ExpectationHistory,
    Freshness,
    Lake,
    Operation,
    ReportedModel,
    ReportedStream,
    ReportedTable,
)
from headwaters.report.pages import plots
from headwaters.report.pages.document import document
from headwaters.report.pages.graph import SUB, Box, Graph, clipped, graph
from headwaters.report.pages.texts import ago, clean, duration, listed, number, size
from headwaters.tables.named_tables import table_of_hidden

State = Literal["bad", "warn", "good", "quiet"]
STATES: dict[State, str] = {
    "bad": "failing",
    "warn": "needs attention",
    "good": "well",
    "quiet": "nothing to say",
}
_SHOWN = 8  # findings shown before the page folds the rest
_WIDTH = 80  # of a bar in a cell
# The axis of ages, from a minute to ninety days.
_YOUNG, _OLD = 60.0, 90 * 86_400.0
_AXIS = ((60.0, "1 min"), (3600.0, "1 h"), (86_400.0, "1 d"), (7 * 86_400.0, "1 w"))
_LONG_AGO = timedelta(days=90)  # the plot of changes ignores older ones


@dataclass(frozen=True)
class Said:
    """A word with a colour for its state."""

    state: State
    text: str


@dataclass(frozen=True)
class BarPart:
    """A reason of quarantine as a part of a bar: its start and its width, out of 100."""

    reason: str
    records: int
    x: float
    width: float
    kind: int


@dataclass(frozen=True)
class StreamRow:
    """A stream, its bars of rows and of quarantined records, and its quarantine by reason."""

    stream: ReportedStream
    said: Said
    rows: str
    bad: str
    slots: float
    parts: tuple[BarPart, ...]


@dataclass(frozen=True)
class ModelRow:
    """A model, its bars of bytes a run, and ticks for predictions."""

    model: ReportedModel
    said: Said
    bars: str
    ticks: str
    slots: float
    cost: str
    waiting: str
    waits_for: str


@dataclass(frozen=True)
class TableRow:
    """A table, the width of its bar of bytes, and the place of its readers' oldest need, of 100."""

    table: ReportedTable
    said: Said
    bytes_width: float
    need: float | None
    need_text: str


@dataclass(frozen=True)
class ExpectationRow:
    """An expectation, and bars of the share of rows that did not meet it."""

    expectation: ExpectationHistory
    said: Said
    bars: str
    slots: float


@dataclass(frozen=True)
class AgeRow:
    """An age as a place on the axis of ages; thresholds likewise."""

    name: str
    what: str
    said: Said
    age: str
    seconds: float
    at: float | None
    warn: float | None
    error: float | None
    limit: str


@dataclass(frozen=True)
class Strip:
    """The changed rows of a schema's tables over time."""

    name: str
    bars: str
    total: int
    most: int


@dataclass(frozen=True)
class Activity:
    """The changes by schema and time; `marks` are the moments below, from left to right."""

    strips: tuple[Strip, ...]
    slots: float
    marks: tuple[str, ...]
    each: str


def render(lake: Lake, state: str = "") -> str:
    """Return the page, which loads nothing. With `state` it asks its server for newer states."""
    found = attention(lake)
    tables = [_table(one, lake) for one in _in_order(lake)]
    models = [_model(one, lake) for one in lake.models]
    return document(
        "report.html.j2",
        ["report.js"],
        connects=bool(state),
        state=state,
        lake=lake,
        attention=found[:_SHOWN],
        more=found[_SHOWN:],
        verdict=_verdict(found, lake),
        figures=list(_figures(lake)),
        graph=_lineage(lake),
        activity=_activity(lake),
        streams=[_stream(one) for one in lake.streams],
        models=models,
        tables=tables,
        expectations=[_expectation(one) for one in lake.expectations],
        operations=[(one, _operation(one, lake.at)) for one in lake.operations],
        ages=list(_ages(lake)),
        axis=[(_on_axis(seconds), text) for seconds, text in _AXIS],
        states=STATES,
        pitch=plots.PITCH,
        width=_WIDTH,
    )


def _in_order(lake: Lake) -> list[ReportedTable]:
    """Sort tables: data before headwaters' own, largest first, hidden ones after their model's."""
    named = {one.name: one for one in lake.tables}

    def place(table: ReportedTable) -> tuple[bool, int, str, str]:
        owner = named.get((table_of_hidden(table.name) or (table.name,))[0], table)
        return owner.kind == "ops", -owner.bytes, owner.name, table.name

    return sorted(lake.tables, key=place)


def _verdict(found: Sequence[Attention], lake: Lake) -> Said:
    bad = sum(one.level == "bad" for one in found)
    warn = len(found) - bad
    if not lake.tables and not lake.streams:
        return Said("quiet", "There is no table yet")
    if bad:
        also = f", {warn:,} more to look at" if warn else ""
        return Said("bad", f"{number(bad, 'thing')} {'fails' if bad == 1 else 'fail'}{also}")
    if warn:
        needs = "needs" if warn == 1 else "need"
        return Said("warn", f"{number(warn, 'thing')} {needs} attention")
    if lake.problems:
        return Said("quiet", "Not everything could be read")
    return Said("good", "Nothing needs attention")


def _figures(lake: Lake) -> Iterator[tuple[str, str, str]]:
    data = [one for one in lake.tables if one.kind != "ops"]
    waiting = sum(1 for one in lake.streams if one.backlog and one.backlog.number)
    said = f"{waiting:,} with a backlog" if waiting else "all read" if lake.streams else ""
    failed = sum(bool(one.error) for one in lake.streams)
    yield "streams", f"{len(lake.streams):,}", f"{failed:,} failed" if failed else said
    built = sum(one.is_built for one in lake.models)
    failed = sum(one.outcome is not None and one.outcome.failed for one in lake.models)
    also = f", {failed:,} failed" if failed else ""
    yield "models", f"{built:,}", f"of {len(lake.models):,} built{also}"
    yield "tables", f"{len(data):,}", size(sum(one.bytes for one in data))
    yield "rows", _short(sum(one.rows or 0 for one in data)), ""
    bad = sum(one.quarantined or 0 for one in lake.streams)
    read = bad + sum(one.rows or 0 for one in lake.streams)
    yield "in quarantine", _short(bad), f"{bad / read * 100:.2f} % of records" if read else ""
    changed = [one.last_change for one in data if one.last_change]
    yield "last change", ago(max(changed), lake.at) if changed else "none", ""


def _short(count: int) -> str:
    """Return a large number in few digits: `1.08 M`."""
    for unit, size_of in (("G", 1e9), ("M", 1e6)):
        if count >= size_of:
            return f"{count / size_of:.3g} {unit}"
    return f"{count:,}"


# --- rows of the page's tables


def _stream(stream: ReportedStream) -> StreamRow:
    batches = stream.batches
    most = max((one.rows + one.quarantined for one in batches), default=0)
    rows = plots.bars([one.rows for one in batches], most=most)
    bad = plots.bars([one.quarantined for one in batches], most=most)
    if stream.error:
        said = Said("bad", "failed")
    elif stream.interrupted:
        said = Said("warn", "a batch is not finished")
    elif batches and batches[-1].quarantined and stream.quarantined != 0:
        said = Said("warn", "quarantined")
    elif not stream.has_landed:
        said = Said("quiet", "never landed")
    elif stream.backlog is None:
        said = Said("quiet", "backlog unknown")
    else:
        said = Said("good", "waiting" if stream.backlog.number else "all read")
    return StreamRow(stream, said, rows, bad, max(len(batches), 1), tuple(_parts(stream)))


def _parts(stream: ReportedStream) -> Iterator[BarPart]:
    reasons = stream.quarantine or {}
    total, x = sum(reasons.values()), 0.0
    for index, (reason, records) in enumerate(reasons.items()):
        width = 100 * records / total
        yield BarPart(clean(reason, 60), records, x, width, index % 4)
        x += width


def _model(model: ReportedModel, lake: Lake) -> ModelRow:
    runs = model.runs
    known = [run.bytes for run in runs] + [run.expected_bytes or 0 for run in runs]
    most = max(known, default=0)
    return ModelRow(
        model,
        _state_of(model, lake),
        plots.bars([run.bytes for run in runs], most=most),
        plots.ticks([run.expected_bytes for run in runs], most),
        max(len(runs), 1),
        _cost(model),
        *_waiting(model, lake.at),
    )


def _state_of(model: ReportedModel, lake: Lake) -> Said:
    if model.outcome and model.outcome.failed:
        return Said("bad", "skipped" if model.outcome.status == "skipped" else "failed")
    if not model.is_built:
        return Said("warn", "not built")
    since = model.waiting_since
    if since is None:
        return Said("good", "up to date" if model.strategy not in ("table", "view") else "built")
    late = model.runs_every and (lake.at - since).total_seconds() > model.runs_every
    return Said("warn", "late") if late else Said("good", "changes wait")


def _waiting(model: ReportedModel, now: datetime) -> tuple[str, str]:
    """Return how many changed rows wait, and their tables with the time of the oldest change."""
    if not model.behind:
        return "", ""
    tables = listed([clean(one.table, 60) for one in model.behind])
    rows = sum(one.rows for one in model.behind)
    return number(rows, "row"), f"{tables}, {ago(model.waiting_since, now)}"


def _cost(model: ReportedModel) -> str:
    """Compare the last run's bytes with the prediction."""
    run = model.last
    if run is None or not run.expected_bytes:
        return ""
    return f"{run.bytes / run.expected_bytes * 100:,.0f} % of expected"


def _table(table: ReportedTable, lake: Lake) -> TableRow:
    most = max((one.bytes for one in lake.tables), default=0)
    need = table.oldest_need
    at, text = None, ""
    if need:
        age = (lake.at - need.since).total_seconds()
        at = 100 * min(1.0, age / table.retention) if table.retention else 100.0
        text = f"{clean(need.reader, 80)} has not read what changed {ago(need.since, lake.at)}"
    if at == 100:
        said = Said("bad", "needed for longer than retained")
    elif table.due:
        said = Said("warn", ", ".join(step for step, _ in table.due))
    else:
        said = Said("good", "")
    width = _WIDTH * table.bytes / most if most else 0.0
    return TableRow(table, said, max(width, 1.0) if table.bytes else 0.0, at, text)


def _expectation(one: ExpectationHistory) -> ExpectationRow:
    shares = [e.broken / e.rows if e.rows else 0.0 for e in one.evaluations]
    if one.last is None:
        said = Said("quiet", "never evaluated")
    elif one.last.broken:
        said = Said("bad" if one.on_failure == "fail" else "warn", f"{one.last.broken:,} broken")
    else:
        said = Said("good", "met")
    return ExpectationRow(one, said, plots.bars(shares), max(len(shares), 1))


def _operation(one: Operation, now: datetime) -> Said:
    if one.state == "failed":
        return Said("bad", "failed")
    if one.state == "started":
        running = now - one.at < timedelta(hours=1)
        return Said("quiet", "running") if running else Said("warn", "has not ended")
    return Said("good", one.state)


def _ages(lake: Lake) -> Iterator[AgeRow]:
    """Yield the ages: of sources by their rows, of models by the oldest unapplied change."""
    for one in lake.freshness:
        state = one.state(lake.at)
        word: dict[str, Said] = {
            "fresh": Said("good", "fresh"),
            "warn": Said("warn", "stale"),
            "error": Said("bad", "stale"),
            "empty": Said("quiet", "empty"),
        }
        if one.warn_after is None and one.error_after is None and one.last_change:
            word["fresh"] = Said("quiet", "no limit")
        limit = ", ".join(
            f"{name} after {duration(at)}"
            for name, at in (("warn", one.warn_after), ("fail", one.error_after))
            if at is not None
        )
        yield _age(one.table, "source", word[state], one.last_change, lake.at, limit, one)
    for model in lake.models:
        if model.waiting_since:
            limit = f"runs every {duration(model.runs_every)}" if model.runs_every else ""
            warn = Freshness("", None, model.runs_every)
            said = _state_of(model, lake)
            yield _age(
                model.table, "change not applied", said, model.waiting_since, lake.at, limit, warn
            )


def _age(
    name: str,
    what: str,
    said: Said,
    moment: datetime | None,
    now: datetime,
    limit: str,
    thresholds: Freshness,
) -> AgeRow:
    seconds = -1.0 if moment is None else max(0.0, (now - moment).total_seconds())
    warn, error = (
        None if limit_ is None else _on_axis(limit_)
        for limit_ in (thresholds.warn_after, thresholds.error_after)
    )
    at = None if moment is None else _on_axis(seconds)
    return AgeRow(name, what, said, ago(moment, now), seconds, at, warn, error, limit)


def _on_axis(seconds: float) -> float:
    return 100 * plots.on_log_axis(max(seconds, _YOUNG), _YOUNG, _OLD)


# --- plots over all tables


def _activity(lake: Lake) -> Activity | None:
    """Return the changed rows by schema over the time of the logs, ninety days at most."""
    by_schema: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
    for table in lake.tables:
        if table.kind != "ops":
            recent = [c for c in table.changes if lake.at - c.at < _LONG_AGO]
            by_schema[table.schema] += [(c.at, c.rows) for c in recent]
    moments = [at for changes in by_schema.values() for at, _ in changes]
    if not moments:
        return None
    begins = plots.buckets(min(moments), max(lake.at, max(moments)))
    strips = [_strip(name, begins, changes) for name, changes in by_schema.items() if changes]
    length = begins[1] - begins[0] if len(begins) > 1 else timedelta(minutes=1)
    form = "%-d %b" if length >= timedelta(days=1) else "%-d %b %H:%M"
    marks = (begins[at] for at in (0, len(begins) // 2, len(begins) - 1))
    return Activity(
        tuple(sorted(strips, key=lambda one: _layer(one.name))),
        len(begins) * plots.PITCH - (plots.PITCH - plots.WIDE),
        tuple(dict.fromkeys(f"{mark:{form}}" for mark in marks)),
        duration(length.total_seconds()).replace(".0 ", " "),
    )


def _strip(name: str, begins: Sequence[datetime], changes: Sequence[tuple[datetime, int]]) -> Strip:
    rows = [0] * len(begins)
    for at, count in changes:
        if (index := plots.bucket_of(at, begins)) is not None:
            rows[index] += count
    return Strip(clean(name, 40), plots.bars(rows, 40), sum(rows), max(rows))


def _layer(name: str) -> tuple[int, str]:
    known = ("bronze", "reference", "silver", "gold")
    return (known.index(name) if name in known else len(known), name)


def _lineage(lake: Lake) -> Graph | None:
    known = {table.name: table for table in lake.tables}
    boxes: dict[str, tuple[Said, str]] = {
        **{one.table: (_stream(one).said, f"#s{i}") for i, one in enumerate(lake.streams)},
        **{one.table: (_state_of(one, lake), f"#m{i}") for i, one in enumerate(lake.models)},
    }
    if not boxes:
        return None
    return graph(boxes, lake.edges, lambda name: _box(name, known.get(name), boxes.get(name)))


def _box(name: str, table: ReportedTable | None, known: tuple[Said, str] | None) -> Box:
    said, href = known or (Said("quiet", "read"), None)
    schema, _, label = clean(name).rpartition(".")
    rows = "no table" if table is None else f"{_short(table.rows or 0)} rows"
    told = rows if said.state == "good" else f"{said.text}, {rows}"
    css = {"bad": "broken", "warn": "differs", "good": "same", "quiet": "outside"}[said.state]
    title = f"{clean(name)}: {said.text}, {rows}"
    return Box(clipped(label), clean(f"{schema}: {told}", SUB), title, css, href)
