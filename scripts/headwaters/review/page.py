"""A review as one self-contained HTML page: lineage, models, and differences to browse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from headwaters.report.pages.document import document
from headwaters.report.pages.graph import SUB, Box, Graph, clipped, graph
from headwaters.report.pages.texts import LONGEST, clean, duration, marked, number, size
from headwaters.review import costs
from headwaters.review.facts import Example, ModelReview, Review
from headwaters.review.verdict import differing, verdict

State = Literal["broken", "differs", "unknown", "same", "quiet"]

STATES: dict[State, str] = {
    "broken": "fails",
    "differs": "rows or columns differ",
    "unknown": "not compared",
    "same": "no row differs",
    "quiet": "no row was computed",
}
_LINES = 2_000  # of a difference of SQL
# Stand-ins for a value in the page's data: the side has no such value, or must not show it.
_ABSENT, _MASKED = 0, 1


@dataclass(frozen=True)
class Row:
    """A model in the table of models, and its section."""

    model: ModelReview
    anchor: str
    name: str
    state: State
    summary: str
    rows: int
    differing: int
    columns: tuple[str, ...]
    diff: tuple[tuple[str, str], ...]
    more_lines: int
    cost: str
    efforts: tuple[tuple[str, str, str], ...]
    examples: int


def render(review: Review) -> str:
    """Return the page, which loads nothing and needs no server."""
    rows = [_row(model, index) for index, model in enumerate(review.models)]
    return document(
        "review.html.j2",
        ["review.js"],
        review=review,
        verdict=verdict(review),
        figures=list(_figures(review)),
        rows=rows,
        states={
            state: text for state, text in STATES.items() if any(r.state == state for r in rows)
        },
        graph=_lineage(review, rows),
        data=_data(review.models),
        differences=sum(row.examples for row in rows),
        is_compared=any(model.difference for model in review.models),
    )


def state_of(model: ModelReview) -> State:
    """Return the most severe state of a model."""
    if model.is_broken:
        return "broken"
    if model.is_one_sided:
        return "differs"
    found = model.difference
    if (found and found.rows) or any(one.before != one.after for one in model.columns):
        return "differs"
    if found is None or found.extent == "none":
        return "unknown" if model.why_not or model.not_compared else "quiet"
    return "same"


def _figures(review: Review) -> Iterator[tuple[str, str, str]]:
    compared = [one.difference for one in review.models if one.difference]
    yield (
        "models",
        f"{len(review.models):,}",
        f"{sum('upstream' not in m.causes for m in review.models):,} edited",
    )
    differ = sum(map(differing, review.models))
    sizes = (sum(one.rows_before for one in compared), sum(one.rows_after for one in compared))
    of = f"{sizes[0]:,} rows before, {sizes[1]:,} after"
    yield "rows that differ", f"{differ:,}", of if sizes[0] != sizes[1] else f"of {sizes[1]:,}"
    columns = sum(1 for model in review.models for one in model.columns if one.changed)
    yield "columns", f"{columns:,}", "with other values"
    failing = sum(one.fails for model in review.models for one in model.findings)
    yield "failures", f"{failing:,}", "contracts, tests, policy"
    once = [m.cost for m in review.models if m.cost and m.cost.one_off != "nothing"]
    seconds = sum(cost.seconds or 0 for cost in once)
    yield "one-off", f"{len(once):,}", f"tables{f', {duration(seconds)}' if seconds else ''}"
    yield "review", duration(review.seconds), ""


def _row(model: ModelReview, index: int) -> Row:
    lines = [clean(line, 400, keep="\t") for line in model.diff_of_sql.split("\n")]
    found = model.difference
    return Row(
        model=model,
        anchor=f"m{index}",
        name=clean(model.table),
        state=state_of(model),
        summary=_summary(model),
        rows=found.rows_after if found else -1,
        differing=found.rows if found else -1,
        columns=tuple(
            clean(one.name, 60) for one in model.columns if one.differs and not model.is_one_sided
        ),
        diff=tuple(_kinds(lines[:_LINES])) if model.diff_of_sql else (),
        more_lines=max(0, len(lines) - _LINES),
        cost=_cost(model),
        efforts=tuple(costs.lines(model.cost)) if model.cost else (),
        examples=len(found.examples) if found else 0,
    )


def _kinds(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the style of each line of a difference; the first two name the files, if present."""
    for index, line in enumerate(lines):
        is_head = index < 2 and line.startswith(("--- ", "+++ "))
        kinds = {"+": "plus", "-": "minus", "@": "at"}
        yield "at" if is_head else kinds.get(line[:1], ""), line


def _cost(model: ModelReview) -> str:
    if model.cost is None:
        return ""
    parts: list[str] = [model.cost.one_off]
    if model.cost.seconds is not None:
        parts.append(duration(model.cost.seconds))
    if model.cost.bytes_written is not None:
        parts.append(size(model.cost.bytes_written))
    return ", ".join(part.replace(" ", "\u00a0") for part in parts)  # no break inside


def _summary(model: ModelReview) -> str:
    failing = [one.kind for one in model.findings if one.fails]
    if failing:
        return f"{failing[0]} fails" if len(failing) == 1 else number(len(failing), "failure")
    if model.stays and model.stays.differing:
        return "does not stay right"
    for cause in ("added", "removed"):
        if cause in model.causes:
            return cause
    found = model.difference
    if found is None or found.extent == "none":
        is_open = model.why_not or model.not_compared
        return "not compared" if is_open else "no row was computed"
    sample = " in a sample" if found.extent == "sample" else ""
    if not found.rows and any(one.before != one.after for one in model.columns):
        return f"columns change{sample}"
    return f"{number(found.rows, 'row')} differ{'s' if found.rows == 1 else ''}{sample}"


def _lineage(review: Review, rows: Sequence[Row]) -> Graph:
    by_id = {row.model.unique_id: row for row in rows}
    edges = [(edge.source, edge.target) for edge in review.edges]
    return graph(by_id, edges, lambda name: _box(name, by_id.get(name)))


def _box(name: str, row: Row | None) -> Box:
    if row is None:
        full = clean(name.split(".", 2)[-1] if name.count(".") > 1 else name)
        kind = clean(name.partition(".")[0], 20)
        return Box(clipped(full), kind, full, "outside", None)
    own = " own" if set(row.model.causes) - {"upstream"} else ""
    title = f"{row.name}: {row.summary}"
    layer, _, label = row.name.rpartition(".")
    sub = clean(f"{layer}: {row.summary}" if layer else row.summary, SUB)
    return Box(clipped(label), sub, title, row.state + own, f"#{row.anchor}")


def _data(models: Sequence[ModelReview]) -> dict[str, Any]:
    """Return the differing rows for the script: model, change, key, columns."""
    return {
        "models": [clean(model.table) for model in models],
        "rows": [
            [index, example.change, _key(example, model), _cells(example, model)]
            for index, model in enumerate(models)
            if model.difference
            for example in model.difference.examples
        ],
    }


def _key(example: Example, model: ModelReview) -> list[list[str | int | None]]:
    masked = _masked(model)
    return [[clean(name, 80), _told(name, value, masked)] for name, value in example.key.items()]


def _masked(model: ModelReview) -> set[str]:
    return {column.name for column in model.columns if column.is_masked}


def _told(
    name: str, value: str | None, masked: set[str], other: str | None = None, skipped: int = 0
) -> str | int | None:
    if value is None:
        return _MASKED if name in masked else None
    before = f"({skipped:,} equal characters) " if skipped else ""
    more = "…" if len(value) > LONGEST else ""
    shown = marked(value[:LONGEST], other and other[:LONGEST])
    return f"{before}{clean(shown, 10 * LONGEST)}{more}"


def _cells(example: Example, model: ModelReview) -> list[list[Any]]:
    masked = _masked(model)
    names = dict.fromkeys([*example.before, *example.after])

    before, after = example.before, example.after

    def side(values: dict[str, str | None], others: dict[str, str | None], name: str) -> Any:
        if name not in values:
            return _ABSENT
        return _told(name, values[name], masked, others.get(name), example.skipped.get(name, 0))

    def differs(name: str) -> bool:
        return (name in before) != (name in after) or before.get(name) != after.get(name)

    return [
        [clean(name, 80), side(before, after, name), side(after, before, name), differs(name)]
        for name in names
    ]
