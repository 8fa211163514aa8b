"""Compute the cost of the planner's choices beyond the cheaper way, for cells with both ways."""

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
    """A change of a table, followed both ways; `place` names the changed rows, or is `new`."""

    case: str
    place: str
    rows: int
    changed: int
    incremental: Result
    replacement: Result
    chosen: Choice

    def cpu(self, choice: Choice) -> float:
        """Return the CPU seconds of a way."""
        seconds = (self.incremental if choice == "incremental" else self.replacement).cpu_s
        assert seconds is not None, f"{self.case}: CPU was not measured"
        return seconds

    @property
    def least(self) -> float:
        """Return the CPU seconds of the cheaper way."""
        return min(self.cpu("incremental"), self.cpu("replace"))

    @property
    def table(self) -> str:
        """Return the table's size and key in the case, or nothing."""
        return ", ".join(self.case.split(", ")[2:])


def cells_of(results: Iterable[Result]) -> list[Cell]:
    """Return the cells with both `headwaters` and `the other way`, in their order.

    A run that replaced the table wrote exactly the bytes of the replacement by hand. If both ways
    wrote these bytes, both replaced the table, and the cell does not show the choice.
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
    """Return the extra CPU seconds of the choices, as a part of the cheaper ways' CPU seconds."""
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
    """Return the share as the hook `share_changed` of change_feed does."""
    above = plan.most_of_rows(_way(cell))
    return {"part": cell.changed, "whole": cell.rows, "what": "rows changed", "above": above}


def summary(results: Iterable[Result]) -> str:
    """Return the planner's regret in words, with the cells that it got wrong."""
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
