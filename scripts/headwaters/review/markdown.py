"""A review as one Markdown comment: the verdict, a table of models, and details that unfold.

Text from data or people (values, names, messages) is never Markdown. It stands in code spans whose
fence it does not contain, or escaped in HTML blocks, where renderers ignore Markdown and
mentions. The comment fits into `LIMIT` and ends with a note of the parts cut.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headwaters.report.pages.texts import clean, cut_before, duration, marked, number
from headwaters.review import costs
from headwaters.review.facts import (
    SQL_DIFFERS,
    ComparedColumn,
    Difference,
    Example,
    Finding,
    ModelReview,
    Review,
    Revision,
)
from headwaters.review.verdict import Verdict, verdict

MARK = "<!-- headwaters review -->"  # identifies the comment
LIMIT = 60_000  # characters; GitHub allows 65,536
PAGE = "review.html"
_FAILING = 20  # findings above the table of models
_VALUE = 120  # characters of a value
_MESSAGE = 600  # characters of one
_TABLE = LIMIT // 3  # the table of models leaves room for details
_SIGNS = {"broken": "❌", "differs": "🔶", "unknown": "❔", "same": "✅", "nothing": "✅"}


@dataclass(frozen=True)
class Depth:
    """The size of a model's details: rows of examples, lines of the difference of its SQL."""

    examples: int
    lines: int


# From full details to none: the first that fits applies. After the last, models lose their details.
_DEPTHS = (
    Depth(20, 200),
    Depth(10, 120),
    Depth(5, 120),
    Depth(2, 60),
    Depth(0, 60),
    Depth(0, 20),
    Depth(0, 0),
)


def render(review: Review, page: str = PAGE) -> str:
    """Return the comment, of less than `LIMIT` characters; `page` leads to the whole review."""
    said = verdict(review)
    models = sorted(review.models, key=_gravity)  # the sort is stable: upstream first
    failing = [(model, one) for model in models for one in model.findings if one.fails]
    shown, head = _head(review, said, models, failing, page)
    room = LIMIT - len(head) - 600  # for the note of the parts cut
    told = [model for model in models if _is_told(model)]
    above = [finding for _, finding in failing[:_FAILING]]
    facts = [list(_facts(model, above)) for model in told]
    for depth in _DEPTHS:
        details = [_details(*pair, depth) for pair in zip(told, facts, strict=True)]
        if sum(map(len, details)) <= room:
            break
    kept = _first(details, room)
    cuts = [
        (len(models) - shown, "{} of the table"),
        (len(told) - len(kept), "the details of {}"),
        (sum(_examples(one) > depth.examples for one in told[: len(kept)]), "examples of {}"),
        (sum(_lines(one) > depth.lines for one in told[: len(kept)]), "the SQL of {}"),
    ]
    cut = [text.format(number(count, "model")) for count, text in cuts if count]
    tail = f"Cut here, and whole in {code(page)}: {', '.join(cut)}.\n" if cut else ""
    return head + "".join(kept) + tail


def code(value: str, limit: int = 200) -> str:
    """Return a code span with a fence longer than any run of backticks in the text."""
    text = clean(value, limit) or " "
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    # a renderer strips one blank on both sides; without it a fence would merge with the text
    pad = " " if text[0] in "` " or text[-1] in "` " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _cell(value: str, limit: int = 120) -> str:
    """Return a code span for a Markdown table, whose cells end at each bar."""
    return code(value.replace("|", "\\x7c"), limit)


def _head(
    review: Review,
    said: Verdict,
    models: Sequence[ModelReview],
    failing: Sequence[tuple[ModelReview, Finding]],
    page: str,
) -> tuple[int, str]:
    """Return everything above the details, and the number of models in its table."""
    lines = [MARK, f"## {_SIGNS[said.kind]} {_sentence(said.text)}", ""]
    lines += [f"- {_sentence(text)}" for text in said.also[:20]]
    if said.also[20:]:
        lines.append(f"- and {len(said.also) - 20:,} more")
    lines += [""] if said.also else []
    facts = [f"{_revision(review.head)} against {_revision(review.base)}"]
    facts.append(number(len(review.models), "model"))
    if review.exposures:
        facts.append(number(len(review.exposures), "exposure"))
    if any(model.difference for model in review.models):
        facts.append("the same inputs on both sides")
    facts.append(duration(review.seconds))
    lines += [" · ".join(facts), ""]
    groups = _alike(failing)
    for finding, tables in groups[:_FAILING]:
        place = f" ({code(finding.place, 100)})" if finding.place else ""
        names = ", ".join(map(code, tables[:5]))
        names += f" and {len(tables) - 5:,} more" if tables[5:] else ""
        lines.append(f"- **{finding.kind}** {names}: {code(finding.text, _MESSAGE)}{place}")
    if groups[_FAILING:]:
        rest = sum(len(tables) for _, tables in groups[_FAILING:])
        lines.append(f"- and {rest:,} more that fail, in {code(page)}")
    lines += [""] if failing else []
    shown = 0
    if models:
        lines += [
            "| model | changed | rows | added | removed | changed rows | columns | one-off |",
            "|---|---|--:|--:|--:|--:|---|---|",
        ]
        length = 0
        for model in models:
            row = _row(model)
            length += len(row) + 1
            if length > _TABLE:
                lines.append(f"| and {len(models) - shown:,} more | | | | | | | |")
                break
            lines.append(row)
            shown += 1
        lines.append("")
    if review.exposures:
        names = ", ".join(code(name, 80) for name in review.exposures[:30])
        more = f" and {len(review.exposures) - 30:,} more" if review.exposures[30:] else ""
        lines += [f"Read by {names}{more}.", ""]
    for note in review.notes[:20]:
        lines.append(f"- {code(note, 300)}")
    if review.notes[20:]:
        lines.append(f"- and {len(review.notes) - 20:,} more notes, in {code(page)}")
    lines += [""] if review.notes else []
    return shown, "\n".join(lines) + "\n"


def _alike(
    failing: Sequence[tuple[ModelReview, Finding]],
) -> list[tuple[Finding, list[str]]]:
    """Return the failing findings, each text once, with the tables that have it."""
    tables: dict[tuple[str, str], list[str]] = {}
    findings: dict[tuple[str, str], Finding] = {}
    for model, finding in failing:
        same = (finding.kind, finding.text)
        findings.setdefault(same, finding)
        if finding.place != findings[same].place:
            findings[same] = replace(findings[same], place="")  # of several files
        if model.table not in tables.setdefault(same, []):
            tables[same].append(model.table)
    return [(finding, tables[same]) for same, finding in findings.items()]


def _sentence(text: str) -> str:
    """Return a sentence of the verdict with escaped table names, its only foreign text."""
    words = []
    for word in re.split(r"(\s+)", clean(text, 600)):
        is_plain = re.fullmatch(r"\s*|[A-Za-z]+(-[A-Za-z]+)*[,:;.]?|[\d,]+[;:]?", word)
        name, end = (word[:-1], word[-1]) if word[-1:] in (",", ":", ";") else (word, "")
        words.append(word if is_plain else code(name) + end)
    return "".join(words)


def _revision(revision: Revision) -> str:
    dirty = " with uncommitted changes" if revision.is_dirty else ""
    return f"{code(revision.branch, 100)} {code(revision.commit[:10], 10)}{dirty}"


def _row(model: ModelReview) -> str:
    found = model.difference
    if found is None or found.extent == "none":
        rows = ["—"] * 4
    else:
        counts = (found.rows_after, found.added, found.removed, found.changed)
        rows = [f"{count:,}" if count else "0" for count in counts]
        if found.extent == "sample":
            rows[0] += " (sample)"
    touched = _touched(model)
    columns = ", ".join(_cell(one.name, 40) for one in touched[:4])
    columns += f" and {len(touched) - 4:,} more" if touched[4:] else ""
    one_off = model.cost.one_off if model.cost else "—"
    causes = ", ".join(model.causes)
    return f"| {' | '.join([_cell(model.table), causes, *rows, columns or '—', one_off])} |"


def _touched(model: ModelReview) -> list[ComparedColumn]:
    """Return the columns that differ, or none for a table that only one side has."""
    return [one for one in model.columns if one.differs and not model.is_one_sided]


def _is_told(model: ModelReview) -> bool:
    """Return true if a model needs details besides its row in the table of models."""
    found = model.difference
    differs = found is None or found.rows or _touched(model)
    return bool(differs or model.findings or model.why_not or {"upstream"} != set(model.causes))


def _details(model: ModelReview, facts: Sequence[str], depth: Depth) -> str:
    """Return one model's details, folded."""
    parts = [f"<details><summary><code>{_escaped(model.table)}</code>: {_summary(model)}</summary>"]
    parts += ["", *facts, ""]
    if model.diff_of_sql and depth.lines:
        parts += [*_diff(model.diff_of_sql, depth.lines), ""]
    if model.difference and model.difference.examples and depth.examples:
        parts += [*_examples_table(model.difference, model, depth.examples), ""]
    return "\n".join([*parts, "</details>", "", ""])


def _summary(model: ModelReview) -> str:
    found = model.difference
    if model.is_one_sided:
        cause = "added" if "added" in model.causes else "removed"
        return f"{cause}, {number(found.rows, 'row')}" if found else cause
    if found is None or found.extent == "none":
        is_open = model.why_not or model.not_compared
        return "not compared" if is_open else "no row was computed"
    if found.extent == "sample":
        return f"{number(found.rows, 'row')} differ in a sample of {found.rows_after:,}"
    if not found.added and not found.removed:
        return f"{found.rows:,} of {number(found.rows_after, 'row')} differ"
    sizes = f"{found.rows_before:,} rows before, {found.rows_after:,} after"
    counts = ((found.added, "added"), (found.removed, "removed"), (found.changed, "changed"))
    return f"{', '.join(f'{count:,} {what}' for count, what in counts if count)}; {sizes}"


def _facts(model: ModelReview, told: Sequence[Finding]) -> Iterator[str]:
    """Yield lines about a model. `told` are findings already shown above."""
    seen = (*model.causes, SQL_DIFFERS) if model.diff_of_sql else model.causes
    for text in model.what_changed[:20]:
        if text not in seen:
            yield f"- {code(text, 300)}"
    found = None if model.is_one_sided else model.difference
    if found and not found.by_key:
        yield "- no key: compared as multisets, a changed row is one removed and one added"
    if found and found.extent == "sample":
        yield "- a sample of the rows was compared"
    if found and found.rounded:
        rows = number(found.rounded, "row")
        yield f"- {rows} differ only in the last digits of floating-point numbers: not counted"
    if found and found.why_no_examples:
        yield f"- no examples: {code(found.why_no_examples, 300)}"
    if model.why_not:
        yield f"- not compared: {code(model.why_not_compared, 400)}"
    for column in _touched(model)[:60]:
        if column.before is None:
            yield f"- column {code(column.name)} is added, {code(column.after or '?')}"
        elif column.after is None:
            yield f"- column {code(column.name)} is removed, it was {code(column.before)}"
        elif column.before != column.after:
            types = f"{code(column.before)} becomes {code(column.after)}"
            yield f"- column {code(column.name)}: {types}"
        if column.changed:
            masked = ", masked" if column.is_masked else ""
            yield f"- {code(column.name)} differs in {number(column.changed, 'row')}{masked}"
    if stays := model.stays:
        how = code(stays.how, 300)
        yield f"- {stays.result}: {how}" if stays.differing is None else f"- {stays.result} ({how})"
    if cost := model.cost:
        reason = code(cost.one_off_reason, 300)
        said = {run: _predicted(*words) for run, *words in costs.lines(cost)}
        yield f"- one-off: {cost.one_off} ({reason}){said.get('one-off', '')}"
        yield f"- next run: {code(cost.next_run, 300)}{said['next run']}"
    for finding in [one for one in model.findings if one not in told][:50]:
        place = f" ({code(finding.place, 100)})" if finding.place else ""
        state = "fails" if finding.fails else "passes"
        yield f"- {finding.kind}, {state}: {code(finding.text, 300)}{place}"
    for name, version in sorted((model.pinned or {}).items())[:50]:
        yield f"- reads {code(name)} at version {version}"


def _predicted(predicted: str, measured: str) -> str:
    """Return both, or nothing if neither is known."""
    if predicted == costs.UNKNOWN and not measured:
        return ""
    took = f"measured {code(measured)}" if measured else "not measured"
    return f"; predicted {code(predicted, 300)}, {took}"


def _examples_table(found: Difference, model: ModelReview, most: int) -> Iterator[str]:
    masked = {column.name for column in model.columns if column.is_masked}
    # an empty line would end the block of HTML
    yield "<table><thead><tr><th></th><th>key</th><th>before</th><th>after</th></tr></thead>"
    for example in found.examples[:most]:
        cells = "".join(f"<td>{cell}</td>" for cell in _cells(example, masked))
        yield f"<tr><td>{example.change}</td>{cells}</tr>"
    yield "</table>"


def _cells(example: Example, masked: set[str]) -> Iterator[str]:
    """Yield the key and both sides of a row, with marks where its values look the same."""
    before, after = example.before, example.after
    for values, others in ((example.key, {}), (before, after), (after, before)):
        yield "<br>".join(
            f"<code>{_escaped(name, 60)}</code> "
            + _value(value, others.get(name), example.skipped.get(name, 0), name in masked)
            for name, value in list(values.items())[:30]
        )


def _value(value: str | None, other: str | None, skipped: int, masked: bool) -> str:
    if value is None:
        return "<em>masked</em>" if masked else "<em>NULL</em>"
    start = cut_before(value, other, _VALUE)
    shown = marked(value[start : start + _VALUE], other and other[start : start + _VALUE])
    more = "…" if len(value) > start + _VALUE else ""
    left_out = f"after {skipped + start:,} equal characters " if skipped + start else ""
    return f"{left_out}<code>{_escaped(shown, 10 * _VALUE)}{more}</code>"


def _escaped(value: str, limit: int = 200) -> str:
    """Escape a text for an HTML element `code`, where renderers ignore mentions."""
    return html.escape(clean(value, limit))


def _diff(text: str, most: int) -> Iterator[str]:
    lines = [clean(line, 200, keep="\t") for line in text[: most * 1000].split("\n")]
    shown = lines[:most]
    longest = max((len(run) for line in shown for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}diff"
    yield from shown
    if len(lines) > most:
        yield f"… {len(lines) - most:,} more lines"
    yield fence


def _first(details: Sequence[str], room: int) -> list[str]:
    kept: list[str] = []
    for one in details:
        room -= len(one)
        if room < 0:
            break
        kept.append(one)
    return kept


def _gravity(model: ModelReview) -> int:
    """Return the sort key: failing models first, then differing ones, unknown rows, all others."""
    if model.is_broken:
        return 0
    if model.difference and model.difference.rows:
        return 1
    return 2 if model.why_not else 3


def _examples(model: ModelReview) -> int:
    return len(model.difference.examples) if model.difference else 0


def _lines(model: ModelReview) -> int:
    return model.diff_of_sql.count("\n") + 1 if model.diff_of_sql else 0
