"""Test that a run applies changes or replaces the table, by the share of changed rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import regret
from benchmarks.runner import results_of
from headwaters.runs.decisions import Decision, is_small_change, of_share

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "incremental.jsonl"

LARGE = {"part": 40_000, "whole": 100_000, "what": "rows changed", "above": 0.05}
SMALL = LARGE | {"part": 400}


def test_the_share_decides() -> None:
    assert of_share(20_000, LARGE, None) == Decision("replace", "40 % of the rows changed")
    assert of_share(20_000, LARGE, 0.4) == Decision("incremental", "20000 rows changed")
    assert of_share(20_000, SMALL, None) == Decision("incremental", "20000 rows changed")
    assert of_share(20_000, SMALL, 0.001) == Decision("replace", "0.4 % of the rows changed")
    assert of_share(20_000, SMALL | {"whole": 0}, None).choice == "replace"
    assert of_share(20_000, None, None) == Decision("incremental", "20000 rows changed")


def test_ten_thousand_rows_are_never_weighed() -> None:
    assert is_small_change(10_000)
    assert not is_small_change(10_001)


CELLS = regret.cells_of(results_of(RECORDED))
# without those of 2, 5 and 8 %: the cheaper way changes among them
OF_ONE_TABLE = [cell for cell in CELLS if cell.table == ""]
FAR_APART = [cell for cell in OF_ONE_TABLE if not 0.015 < cell.changed / cell.rows < 0.085]


def test_regret_over_the_recorded_cells_is_at_most_three_per_cent() -> None:
    assert {cell.place for cell in CELLS} == {"recent", "spread", "new"}
    assert (len(CELLS), len(FAR_APART)) == (27, 15)
    ways: dict[str, Any] = {cell.case: regret.chosen_today(cell) for cell in CELLS}
    assert ways["spread, 50.00%"] == "replace"  # its merge wrote more bytes than the replacement
    assert (ways["new, 10.00%"], ways["new, 50.00%"]) == ("incremental", "replace")
    assert regret.regret(CELLS, [*ways.values()]) <= 0.03
    assert regret.regret(CELLS, [cell.chosen for cell in CELLS]) <= 0.03
    # one way for all cells is much worse
    assert regret.regret(CELLS, ["replace"] * len(CELLS)) > 0.5
    assert regret.regret(FAR_APART, ["incremental"] * len(FAR_APART)) > 0.5
