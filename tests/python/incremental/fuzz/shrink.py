"""Make a failing history small: fewer steps, models, changes and rows, as long as it fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from incremental.fuzz.history import History
from incremental.fuzz.lot import Course, Failure, Lot

ROUNDS = 12


def shrunk(played: Lot, folder: Path, course: Course) -> str:
    """Return the smallest history found that fails in the same way, as a script."""
    failure = course.failure
    assert failure is not None
    history = replace(course.history, steps=course.history.steps[: failure.round])
    found = [(history, failure)]
    first = _failing(played, folder, [history], failure.kind)
    if not first:
        return f"{history.script()}\n-- not repeated alone: {failure.kind}: {failure.text}"
    for _ in range(ROUNDS):
        failing = _failing(played, folder, list(smaller(found[-1][0])), failure.kind)
        if not failing:
            break
        found.append(min(failing, key=lambda pair: _size(pair[0])))
    history, failure = found[-1]
    return f"{history.script()}\n-- {failure.model} {failure.kind}: {failure.text}"


def _failing(
    played: Lot, folder: Path, histories: list[History], kind: str
) -> list[tuple[History, Failure]]:
    if not histories:
        return []
    candidates = {f"c{number}": history for number, history in enumerate(histories)}
    lot = Lot(played.spark, folder, candidates, played.stored, whole_below=played.whole_below)
    courses = lot.play()
    return [
        (
            replace(course.history, steps=course.history.steps[: course.failure.round]),
            course.failure,
        )
        for course in courses.values()
        if course.failure is not None and course.failure.kind == kind
    ]


def _size(history: History) -> int:
    return len(history.script())


def smaller(history: History) -> Iterator[History]:
    """Return histories that lack one thing, and those that lack half of the steps."""
    steps = history.steps
    if len(steps) > 3:
        yield replace(history, steps=steps[len(steps) // 2 :])
    for place, step in enumerate(steps):
        rest = (*steps[:place], *steps[place + 1 :])
        if len(steps) > 1:
            yield replace(history, steps=rest)
        if place + 1 < len(steps):  # without the run between
            following = steps[place + 1]
            joined = replace(
                following,
                changes=step.changes + following.changes,
                edits=step.edits + following.edits,
            )
            yield replace(history, steps=(*steps[:place], joined, *steps[place + 2 :]))
        less = []
        for number in range(len(step.changes)):
            changes = (*step.changes[:number], *step.changes[number + 1 :])
            less.append(replace(step, changes=changes))
        less += [replace(step, edits=())] if step.edits else []
        less += [replace(step, stop=None)] if step.stop else []
        for number, change in enumerate(step.changes):
            for row in range(len(change.rows) if len(change.rows) > 1 else 0):
                fewer = replace(change, rows=(*change.rows[:row], *change.rows[row + 1 :]))
                changes = (*step.changes[:number], fewer, *step.changes[number + 1 :])
                less.append(replace(step, changes=changes))
        for smaller in less:
            yield replace(history, steps=(*steps[:place], smaller, *steps[place + 1 :]))
    for place, model in enumerate(history.models):
        others = (*history.models[:place], *history.models[place + 1 :])
        is_read = any(model.name in other.reads.values() for other in others)
        if others and not is_read:
            kept = tuple(
                replace(step, edits=tuple(e for e in step.edits if e.name != model.name))
                for step in steps
            )
            yield replace(history, models=others, steps=kept)
    for place, table in enumerate(history.tables):
        for row in range(len(table.rows) if len(table.rows) > 1 else 0):
            fewer = replace(table, rows=(*table.rows[:row], *table.rows[row + 1 :]))
            yield replace(
                history, tables=(*history.tables[:place], fewer, *history.tables[place + 1 :])
            )
