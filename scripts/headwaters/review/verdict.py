"""The headline of a review, for people who read nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from headwaters.report.pages.texts import listed, number
from headwaters.review.facts import Finding, ModelReview, Review

# `broken`: a contract, a policy, a test or the proof fails. `unknown`: not all could be compared.
Kind = Literal["broken", "differs", "unknown", "same", "nothing"]


@dataclass(frozen=True)
class Verdict:
    """The most severe result (`text`), and the others in order of severity."""

    kind: Kind
    text: str
    also: tuple[str, ...] = ()

    @property
    def fails(self) -> bool:
        """Return true if the review ends with exit code 1."""
        return self.kind == "broken"


def verdict(review: Review) -> Verdict:
    """Return the headline of a pull request; a green one covers every change."""
    rest = [
        *(text for model in review.models for text in model.not_compared),
        *review.not_compared,
    ]
    if review.does_not_parse:
        return Verdict("broken", f"the project does not parse: {review.does_not_parse}")
    if not review.models:
        first, *others = [*rest, "no model changes"]
        return Verdict("unknown" if rest else "nothing", first, tuple(others))
    broken = list(_broken(review.models))
    rows, tables = list(_rows(review.models)), list(_tables(review.models))
    left = list(_left(review.models))
    missing = list(_missing(review.models))
    beside = [*_rounded(review.models), *_unproven(review.models)]
    if sentences := [*broken, *rows, *tables, *left]:
        first, *others = [*sentences, *missing, *rest, *beside]
        return Verdict("broken" if broken else "differs", first, tuple(others))
    same = _same(review.models)
    if missing or rest:
        compared = [same] if _compared(review.models) else []
        first, *others = [*compared, *missing, *rest, *beside]
        return Verdict("unknown", first, tuple(others))
    return Verdict("same", same, tuple(beside))


def _fails(kind: str, model: ModelReview) -> bool:
    return bool(failing(model, kind))


def failing(model: ModelReview, *kinds: str) -> list[Finding]:
    """Return the findings of some kinds that fail the review."""
    return [one for one in model.findings if one.fails and one.kind in kinds]


def differing(model: ModelReview) -> int:
    """Return the number of differing rows, 0 for a table that only one side has."""
    return model.difference.rows if model.difference and not model.is_one_sided else 0


def _broken(models: Sequence[ModelReview]) -> Iterator[str]:
    if names := _names(models, partial(_fails, "maintenance")):
        yield f"a strict model is not maintained incrementally: {listed(names)}"
    if names := _names(models, partial(_fails, "build")):
        yield f"{listed(names)} {'does' if len(names) == 1 else 'do'} not build"
    for kind, what, plural in (
        ("contract", "contract", "contracts"),
        ("property", "policy", "policies"),
    ):
        some = [model for model in models if _fails(kind, model)]
        if len(some) == 1:
            texts = list(dict.fromkeys(one.text for one in failing(some[0], kind)))
            more = f" and {len(texts) - 1:,} more" if texts[1:] else ""
            yield f"breaks the {what} of {some[0].table}: {texts[0]}{more}"
        elif some:
            yield f"breaks the {plural} of {listed([model.table for model in some])}"
    for model in models:
        if model.stays and model.stays.differing:
            yield (
                f"{model.table} does not stay right: an incremental run and a full refresh differ "
                f"in {number(model.stays.differing, 'row')}"
                f"{' of a sample' if model.stays.extent == 'sample' else ''}"
            )
    for kind, unit in (("test", "test"), ("lint", "finding of the linter")):
        count = sum(len(failing(model, kind)) for model in models)
        if count:
            names = _names(models, partial(_fails, kind))
            if kind == "test":
                yield f"{number(count, unit)} of {listed(names)} fail{'s' if count == 1 else ''}"
            else:
                yield f"{number(count, unit, 'findings of the linter')} in {listed(names)}"


def _rows(models: Sequence[ModelReview]) -> Iterator[str]:
    """Yield a sentence for the fully compared tables, and one for the sampled ones."""
    for extent, prefix in (("all", ""), ("sample", "in a sample, ")):
        found = [one for one in _compared(models) if one.difference and one.difference.rows]
        some = [one for one in found if one.difference and one.difference.extent == extent]
        if some:
            yield prefix + _changes(some)


def _changes(models: Sequence[ModelReview]) -> str:
    differences = [model.difference for model in models if model.difference]
    changed = sum(one.changed for one in differences)
    added, removed = (
        sum(n) for n in zip(*((d.added, d.removed) for d in differences), strict=True)
    )
    columns = sum(1 for model in models for one in model.columns if one.changed)
    # the edited ones first, since the others follow them
    edited = sorted(models, key=lambda model: "upstream" in model.causes)
    where = listed([model.table for model in edited])
    parts = []
    if changed:
        among = f"{number(columns, 'column')} of {where}" if columns else where
        parts.append(f"{number(changed, 'row')} change{'s' if changed == 1 else ''} in {among}")
    for count, what in ((added, "added"), (removed, "removed")):
        if count:
            rows = f"{count:,}" if parts else number(count, "row")
            parts.append(f"{rows} {'is' if count == 1 else 'are'} {what}")
    return ", ".join(parts) + ("" if changed else f" in {where}")


def _tables(models: Sequence[ModelReview]) -> Iterator[str]:
    both = [model for model in models if not model.is_one_sided]
    for what, lacks in (("added to", "before"), ("removed from", "after")):
        touched = [(m, n) for m in both if (n := _lacking(m, lacks))]
        if touched:
            count = sum(n for _, n in touched)
            yield f"{number(count, 'column')} {'is' if count == 1 else 'are'} {what} " + listed(
                [model.table for model, _ in touched]
            )
    retyped = [(m, n) for m in both if (n := _retyped(m))]
    if retyped:
        count = sum(n for _, n in retyped)
        names = listed([model.table for model, _ in retyped])
        verb = "changes its type" if count == 1 else "change their types"
        yield f"{number(count, 'column')} of {names} {verb}"
    for model in models:
        if "added" in model.causes:
            rows = f" with {number(model.difference.rows_after, 'row')}" if model.difference else ""
            yield f"{model.table} is added{rows}"
        if "removed" in model.causes:
            yield f"{model.table} is removed"


def _lacking(model: ModelReview, side: str) -> int:
    return sum(1 for column in model.columns if getattr(column, side) is None)


def _retyped(model: ModelReview) -> int:
    return sum(1 for one in model.columns if one.before and one.after and one.before != one.after)


def _rounded(models: Sequence[ModelReview]) -> Iterator[str]:
    """Yield a sentence for the rows that count as equal, and differ in their last digits."""
    count = sum(one.difference.rounded for one in _compared(models) if one.difference)
    if count:
        verb = "differs" if count == 1 else "differ"
        yield f"{number(count, 'row')} {verb} only in the last digits of floating-point numbers"


def _unproven(models: Sequence[ModelReview]) -> Iterator[str]:
    if names := [one.table for one in models if one.stays and one.stays.differing is None]:
        yield f"the incremental path of {listed(names)} is not proven"


def _left(models: Sequence[ModelReview]) -> Iterator[str]:
    """Yield the models that leave incremental maintenance without a failure of the review."""
    names = _names(models, lambda model: any(_leaves(one) for one in model.findings))
    if names:
        verb = "leaves" if len(names) == 1 else "leave"
        yield f"{listed(names)} {verb} incremental maintenance"


def _leaves(finding: Finding) -> bool:
    return finding.kind == "maintenance" and not finding.fails


def _missing(models: Sequence[ModelReview]) -> Iterator[str]:
    missing = [one for one in models if one.why_not and one not in _compared(models)]
    if names := [one.table for one in missing if not one.is_one_sided]:
        yield f"the rows of {listed(names)} could not be compared"


def _same(models: Sequence[ModelReview]) -> str:
    compared = _compared(models)
    if not compared:
        return "no row was computed: what changed does not reach the rows"
    rows = sum(one.difference.rows_after for one in compared if one.difference)
    sampled = any(one.difference and one.difference.extent == "sample" for one in compared)
    causes = {cause for model in models for cause in model.causes} - {"upstream"}
    of = "in a sample, " if sampled else ""
    is_code = causes & {"text", "macro", "seed"}
    return f"{'refactoring: ' if is_code else ''}{of}0 of {number(rows, 'row')} differ"


def _compared(models: Sequence[ModelReview]) -> list[ModelReview]:
    return [
        one
        for one in models
        if one.difference and one.difference.extent != "none" and not one.is_one_sided
    ]


def _names(models: Sequence[ModelReview], which: Callable[[ModelReview], bool]) -> list[str]:
    return [model.table for model in models if which(model)]
