"""What the planner's choices cost beyond the cheaper way, where both were measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.runner import Result
from headwaters.runs import decisions as plan
from headwaters.runs.decisions import Way

Choice = Literal["incremental", "replace"]


@dataclass(frozen=True)
class Cell:
    """A change of a table, followed both ways; `place` is where rows changed, or `new`."""

    case: str
    place: str
    rows: int
    changed: int
    incremental: Result
    replacement: Result
    chosen: Choice

    def cpu(self, choice: Choice) -> float:
        """CPU seconds of a way."""
        seconds = (self.incremental if choice == "incremental" else self.replacement).cpu_s
        assert seconds is not None, f"{self.case}: CPU was not measured"
        return seconds

    @property
    def least(self) -> float:
        """CPU seconds of the cheaper way."""
        return min(self.cpu("incremental"), self.cpu("replace"))

    @property
    def table(self) -> str:
        """What the case says of the table beyond the change: its size and key, or nothing."""
        return ", ".join(self.case.split(", ")[2:])


def cells_of(results: Iterable[Result]) -> list[Cell]:
    """The cells of which `headwaters` and `the other way` were measured, in their order.

    A run that replaced the table wrote what the replacement by hand did, to the byte. Where the
    other way did so as well, it was none, and the cell says nothing of the choice.
    """
    cases: dict[str, dict[str, Result]] = {}
    for result in results:
        cases.setdefault(result.case, {})[result.variant] = result
    measured = {case: of for case, of in cases.items() if "the other way" in of}
    return [cell for case, of in measured.items() if (cell := _cell(case, of))]


def _cell(case: str, of: dict[str, Result]) -> Cell | None:
    planned, other = of["headwaters"], of["the other way"]
    whole = of["replace"].bytes_written
    replaced = [one for one in (planned, other) if one.bytes_written == whole]
    assert replaced, f"{case}: one of the ways should have replaced the table"
    if len(replaced) == 2:
        return None
    rows, share = planned.rows or 0, planned.share or 0.0
    is_replaced = replaced[0] is planned
    return Cell(
        case,
        case.partition(",")[0],
        rows,
        round(rows * share),
        other if is_replaced else planned,
        planned if is_replaced else other,
        "replace" if is_replaced else "incremental",
    )


def regret(cells: Sequence[Cell], choices: Sequence[Choice]) -> float:
    """CPU seconds of the choices beyond those of the cheaper ways, as a part of the latter."""
    least = sum(cell.least for cell in cells)
    took = sum(cell.cpu(choice) for cell, choice in zip(cells, choices, strict=True))
    return (took - least) / least


def chosen_today(cell: Cell) -> Choice:
    """Return the choice of the functions that decide today, over the recorded change."""
    share = None if plan.is_small_change(cell.changed) else _share(cell)
    choice = plan.of_share(cell.changed, share, None).choice
    return "replace" if choice == "replace" else "incremental"


def _way(cell: Cell) -> Way:
    return "inserts" if cell.place == "new" else "changes"


def _share(cell: Cell) -> dict[str, float | str]:
    """As the hook `share_changed` of change_feed says."""
    above = plan.most_of_rows(_way(cell))
    return {"part": cell.changed, "whole": cell.rows, "what": "rows changed", "above": above}


def summary(results: Iterable[Result]) -> str:
    """The planner's regret in words, with the cells in which the other way was cheaper."""
    cells = cells_of(results)
    if not cells:
        return ""
    wrong = [cell for cell in cells if cell.cpu(cell.chosen) > cell.least]
    named = " and ".join(
        f"`{cell.case}` (the choice took {cell.cpu(cell.chosen) / cell.least:.2f} of it)"
        for cell in wrong
    )
    total = regret(cells, [cell.chosen for cell in cells])
    text = (
        f"Regret of the planner: what it chose took {total:.1%} more CPU than the cheaper ways, "
        f"over {len(cells)} cells."
    )
    text += f" The other way was cheaper at {named}." if named else ""
    today = regret(cells, [chosen_today(cell) for cell in cells])
    return f"{text} By the shares of today it is {today:.1%}."
