"""Test that a run applies changes or replaces the table, by the share of changed rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import regret
from benchmarks.runner import results_of
from headwaters.runs.decisions import (
    Decision,
    Refresh,
    is_small_change,
    of_refresh,
    of_request,
    of_share,
)

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "incremental.jsonl"

LARGE = {"part": 40_000, "whole": 100_000, "what": "rows changed", "above": 0.05}
SMALL = LARGE | {"part": 400}


APPLY = "replace_above: 1 applies changes of any size"


def test_the_share_decides() -> None:
    replaced = Decision("replace", "40 % of the rows changed", remedy=APPLY)
    assert of_share(20_000, LARGE, None) == replaced
    assert of_share(20_000, LARGE, 0.4) == Decision("incremental", "20000 rows changed")
    assert of_share(20_000, SMALL, None) == Decision("incremental", "20000 rows changed")
    replaced = Decision("replace", "0.4 % of the rows changed", remedy=APPLY)
    assert of_share(20_000, SMALL, 0.001) == replaced
    assert of_share(20_000, SMALL | {"whole": 0}, None).choice == "replace"
    assert of_share(20_000, None, None) == Decision("incremental", "20000 rows changed")


def test_ten_thousand_rows_are_never_weighed() -> None:
    assert is_small_change(10_000)
    assert not is_small_change(10_001)


@pytest.mark.parametrize(
    ("refresh", "reaction"),
    [("auto", "allowed"), ("incremental", "warned"), ("strict", "refused")],
)
def test_refresh_decides_about_replacements_without_a_request(
    refresh: Refresh, reaction: str
) -> None:
    assert of_refresh(refresh, is_requested=False) == reaction
    assert of_refresh(refresh, is_requested=True) == "allowed"


def test_a_request_is_a_first_run_a_sample_or_a_full_refresh() -> None:
    plain = {"exists": True, "is_empty": False, "is_sample": False, "full_refresh": False}
    assert of_request(**plain) is None
    for name, value in {"exists": False, "is_sample": True, "full_refresh": True}.items():
        decision = of_request(**{**plain, name: value})
        assert decision is not None and decision.is_requested


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
