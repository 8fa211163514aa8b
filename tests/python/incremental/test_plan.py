"""Whether a run applies changes or replaces the table: by the share, and by the table's history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import regret
from benchmarks.runner import results_of
from headwaters.incremental.costs import Predicted
from headwaters.incremental.plan import Decision, is_small_change, of_costs, of_share

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "incremental.jsonl"

LARGE = {"part": 40_000, "whole": 100_000, "what": "rows changed", "above": 0.05}
SMALL = LARGE | {"part": 400}


def test_without_a_history_the_share_decides() -> None:
    for predicted in (Predicted(), Predicted(3.0, None, 0), Predicted(None, 30.0, 0)):
        assert of_costs(20_000, predicted) is None
    assert of_share(20_000, LARGE, None) == Decision("replace", "40 % of the rows changed")
    assert of_share(20_000, LARGE, None, Predicted()) == of_share(20_000, LARGE, None)
    assert of_share(20_000, LARGE, 0.4) == Decision("incremental", "20000 rows changed")
    assert of_share(20_000, SMALL, None) == Decision("incremental", "20000 rows changed")
    assert of_share(20_000, SMALL, 0.001) == Decision("replace", "0.4 % of the rows changed")
    assert of_share(20_000, SMALL | {"whole": 0}, None).choice == "replace"
    assert of_share(20_000, None, None) == Decision("incremental", "20000 rows changed")


def test_what_is_predicted_of_one_way_is_shown_and_decides_nothing() -> None:
    assert of_share(20_000, LARGE, None, Predicted(1.0, None, 0)) == of_share(20_000, LARGE, None)
    assert of_share(20_000, LARGE, None, Predicted(None, 90.0, 0)) == Decision(
        "replace", "40 % of the rows changed", 90.0, "predicted 90.0 s"
    )
    assert of_share(20_000, SMALL, None, Predicted(9.94, None, 0)) == Decision(
        "incremental", "20000 rows changed", 9.94, "predicted 9.9 s"
    )


def test_what_is_clearly_cheaper_is_taken_before_a_share_is_asked_for() -> None:
    assert of_costs(20_000, Predicted(20.0, 40.0, 1)) == Decision(
        "incremental", "20000 rows changed", 20.0, "predicted 20.0 s, a replacement 40.0 s"
    )
    assert of_costs(20_000, Predicted(40.0, 20.0, 1)) == Decision(
        "replace", "20000 rows changed", 20.0, "predicted 20.0 s, an incremental run 40.0 s"
    )
    for near in (Predicted(20.1, 40.0, 9), Predicted(40.0, 20.1, 9), Predicted(1.0, 5.9, 9)):
        assert of_costs(20_000, near) is None


@pytest.mark.parametrize(
    ("predicted", "of_large", "of_small"),
    [
        (Predicted(40.0, 50.0, 2), "incremental", "incremental"),
        (Predicted(40.0, 50.0, 1), "replace", "incremental"),  # one run of a way is too few
        (Predicted(41.0, 50.0, 9), "replace", "incremental"),  # too near
        (Predicted(16.0, 20.0, 9), "replace", "incremental"),  # less than five seconds
        (Predicted(50.0, 40.0, 2), "replace", "replace"),
        (Predicted(50.0, 40.0, 1), "replace", "incremental"),
        (Predicted(50.0, 41.0, 9), "replace", "incremental"),
        (Predicted(20.0, 16.0, 9), "replace", "incremental"),
    ],
)
def test_the_share_decides_unless_the_other_way_is_noticeably_cheaper(
    predicted: Predicted, of_large: str, of_small: str
) -> None:
    found = [of_share(20_000, share, None, predicted) for share in (LARGE, SMALL)]
    assert [one.choice for one in found] == [of_large, of_small]
    for one in found:
        own, other = predicted.incremental, predicted.replacement
        reason, name = "20000 rows changed", "a replacement"
        if one.choice == "replace":
            own, other = other, own
            reason = f"{'40' if one is found[0] else '0.4'} % of the rows changed"
            name = "an incremental run"
        assert one.reason == reason
        assert one.predicted == own
        assert one.predicted_text == f"predicted {own:.1f} s, {name} {other:.1f} s"


def test_ten_thousand_rows_are_never_weighed() -> None:
    assert is_small_change(10_000)
    assert not is_small_change(10_001)


CELLS = regret.cells_of(results_of(RECORDED))
OF_ONE_TABLE = [cell for cell in CELLS if cell.table == ""]
# without those of 2, 5 and 8 %, between which the cheaper way changes
FAR_APART = [cell for cell in OF_ONE_TABLE if not 0.015 < cell.changed / cell.rows < 0.085]


def test_regret_over_the_recorded_cells_is_at_most_three_per_cent() -> None:
    assert (len(CELLS), len(FAR_APART)) == (27, 15)
    assert {cell.place for cell in CELLS} == {"recent", "spread", "new"}
    ways: dict[str, Any] = {cell.case: cell.chosen for cell in CELLS}
    assert ways["spread, 50.00%"] == "replace"  # its merge wrote more bytes than the replacement
    assert (ways["new, 10.00%"], ways["new, 50.00%"]) == ("incremental", "replace")
    assert regret.regret(CELLS, [cell.chosen for cell in CELLS]) <= 0.03
    assert regret.regret(*regret.replayed(OF_ONE_TABLE)) <= 0.03
    # one way for all cells is far from it, of one table as well
    assert regret.regret(CELLS, ["replace"] * len(CELLS)) > 0.5
    assert regret.regret(FAR_APART, ["incremental"] * len(FAR_APART)) > 0.5


def test_a_share_that_is_wrong_for_a_table_is_corrected_by_its_own_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(cell: regret.Cell) -> dict[str, float | str]:
        return {"part": cell.changed, "whole": cell.rows, "what": "rows changed", "above": 1.0}

    monkeypatch.setattr(regret, "_share", never)
    once, often = (regret.regret(*regret.replayed(FAR_APART, times)) for times in (1, 5))
    assert once > 0.3
    assert often < once / 2
