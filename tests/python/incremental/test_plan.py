"""Test that a run applies changes or replaces the table, by the share of changed rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import regret
from benchmarks.runner import results_of
from headwaters.runs import decisions
from headwaters.runs.decisions import (
    Decision,
    Refresh,
    Size,
    instead_of_replacing,
    is_small_change,
    limit_of_whole,
    may_be_whole,
    may_compare,
    of_refresh,
    of_request,
    of_share,
    of_size,
)
from headwaters.tables.commits import Range
from headwaters.tables.settings import ModelSettings

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks" / "results" / "incremental.jsonl"

DEFAULT_LIMIT = 1000

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


REPLACED = Decision("replace", "95 % of the affected keys", remedy=APPLY)
COMPARED = Decision("incremental", "95 % of the affected keys", remedy=APPLY, compares=True)


@pytest.mark.parametrize(
    ("size", "decision"),
    [
        (None, COMPARED),
        (Size({}, 9), COMPARED),
        (Size({}, 9, 0.0), COMPARED),
        (Size({}, 9, 0.3), COMPARED),
        (Size({}, 9, 0.31), REPLACED),
        (Size({}, 9, 1.0), REPLACED),
    ],
)
def test_a_followed_table_is_compared_unless_most_rows_differed(
    size: Size | None, decision: Decision
) -> None:
    assert instead_of_replacing(REPLACED, size) == decision


@pytest.mark.parametrize(
    ("strategy", "config", "compares"),
    [
        ("affected_keys", {}, True),
        ("led_keys", {}, True),
        ("change_feed", {}, True),
        ("replace", {}, True),
        ("change_feed", {"on_lookup_change": "rebuild"}, True),
        ("change_feed", {"on_lookup_change": "ignore"}, False),
        ("affected_keys", {"allow_nondeterministic": ["now"]}, False),
        ("history", {}, False),
        ("staged", {}, False),
        ("signed_sum", {}, False),
        ("latest_by", {}, False),
    ],
)
def test_tables_that_keep_rows_are_not_compared(
    strategy: str, config: dict[str, Any], compares: bool
) -> None:
    settings = ModelSettings.of_run(config)
    assert may_compare(strategy, settings, has_expectations=False) is compares
    assert may_be_whole(strategy, settings, False) is (compares or strategy == "staged")
    assert not may_compare(strategy, settings, has_expectations=True)
    assert not may_be_whole(strategy, settings, has_expectations=True)


def test_a_small_table_is_computed_in_full() -> None:
    reason = "computed in full from 60 rows"
    replaced = Decision("replace", reason, is_requested=True)
    assert of_size(Size({"a": 50, "b": 10}, 39), 100) == replaced
    assert of_size(Size({"a": 50, "b": 10}, 40), 100) is None
    assert of_size(Size({}, 0), 0) is None


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, DEFAULT_LIMIT),
        ({"whole_below": 0}, 0),
        ({"refresh": "strict", "whole_below": 5}, 5),
        ({"refresh": "strict"}, 0),
        ({"refresh": "incremental"}, 0),
        ({"replace_above": 1}, 0),
        ({"apply_by": "merge"}, 0),
        ({"on_gap": "fail"}, 0),
        ({"on_foreign_write": "warn"}, 0),
    ],
)
def test_a_setting_of_the_way_of_a_run_precedes_the_limit(
    config: dict[str, Any], limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "MOST_ROWS_WHOLE", DEFAULT_LIMIT)
    settings = ModelSettings.of_run(config)
    few, many = Size({}, 1, bytes=7), Size({}, 1, bytes=decisions.MOST_BYTES_WHOLE)
    assert limit_of_whole(settings, None, is_auto=True) == limit
    assert limit_of_whole(settings, few, is_auto=True) == limit
    own = settings.whole_below or 0
    assert limit_of_whole(settings, many, is_auto=True) == own
    assert limit_of_whole(settings, few, is_auto=False) == own


def test_the_size_of_a_table_grows_with_the_changes_of_its_inputs() -> None:
    size = Size({"a": 60, "b": 7}, 40, 0.25, 900)
    changes = [Range("a", 1, 3, rows=5), Range("b", 1, 4, rows=9, replaced=(3,))]
    assert size.after(changes) == Size({"a": 65, "b": 9}, 40, 0.25, 900)
    assert Size.parse(str(size)) == size
    damaged = ('{"rows": 1}', '{"inputs": {}, "rows": 1, "x": 1}', '{"inputs": 1, "rows": 1}')
    for text in (None, "", "{", "[]", "null", '{"inputs": {"a": "b"}, "rows": 1}', *damaged):
        assert Size.parse(text) is None


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
