"""What runs took is noted in few words, fades, and predicts what is like it; it never fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.incremental.commits import Commit, Range
from headwaters.incremental.costs import (
    MOST_SECONDS_OLD,
    NOTE,
    Begun,
    Costs,
    Measured,
    Predicted,
    Way,
    cost_lines,
    costs_of,
    noted,
    parsed,
    predicted,
    way_of_ranges,
    with_incremental,
    with_replacement,
)

NOW = 1_764_150_000  # seconds
CHANGES: Way = "changes"
INSERTS: Way = "inserts"


def replaced(run: str, at: int, **metrics: str) -> Commit:
    properties = json.dumps({"headwaters.run": json.dumps({"id": run})})
    operation = "CREATE OR REPLACE TABLE AS SELECT"
    return Commit(7, at, operation, {"properties": properties}, metrics)


def expected(costs: Costs, rows: int, way: Way, now: int = NOW) -> Predicted:
    return predicted(costs, way, rows, now * 1000)


def test_a_replacement_is_measured_by_its_commit_when_the_next_run_reads_it() -> None:
    costs = with_replacement(Costs(), "a", NOW * 1000)
    assert noted(costs) == json.dumps({"rows": None, "begun": ["a", NOW * 1000]})
    properties = {NOTE: noted(costs)}
    later = Commit(8, (NOW + 99) * 1000, "OPTIMIZE", {}, {})
    commit = replaced("a", NOW * 1000 + 41_300, numOutputRows="2000")
    known = costs_of(properties, [later, commit])
    assert known == Costs(2000, {("replaced", 4): Measured(1, 2000, 41.3, NOW + 41)})
    assert noted(known) == json.dumps({"rows": 2000, "replaced": [[1, 2000, 41.3, NOW + 41]]})
    # without its commit, or with that of another run, nothing is known of it
    for others in ([later], [later, replaced("b", NOW * 1000 + 41_300, numOutputRows="2000")]):
        assert costs_of(properties, others) == Costs()
    # without metrics, or with a commit before its beginning, as where clocks differ
    assert costs_of(properties, [replaced("a", NOW * 1000 + 41_300)]) == Costs()
    early = replaced("a", NOW * 1000 - 1, numOutputRows="2000")
    assert costs_of(properties, [early]) == Costs(2000)
    # what was measured before stays, and the next one counts a third
    again = with_replacement(known, "b", (NOW + 100) * 1000)
    commits = [replaced("b", (NOW + 111) * 1000, numOutputRows="5000")]
    slower = costs_of({NOTE: noted(again)}, commits)
    assert slower.rows == 5000
    (mean,) = slower.of("replaced")
    assert (mean.runs, round(mean.rows), round(mean.seconds, 1)) == (2, 3000, 31.2)


def test_incremental_runs_are_means_by_the_digits_of_their_rows() -> None:
    costs = with_incremental(Costs(500), CHANGES, 300, 20, NOW * 1000, NOW * 1000 + 9_000)
    costs = with_incremental(costs, CHANGES, 600, -70, NOW * 1000, NOW * 1000 + 3_000)
    costs = with_incremental(costs, CHANGES, 40_000, 0, NOW * 1000, NOW * 1000 + 30_000)
    costs = with_incremental(costs, INSERTS, 450, 400, NOW * 1000, NOW * 1000 + 20)
    assert json.loads(noted(costs)) == {
        "rows": 850,
        "inserts": [[1, 450, 0.1, NOW]],
        "changes": [[2, 400, 7.0, NOW + 3], [1, 40_000, 30.0, NOW + 30]],
    }
    assert parsed(noted(costs)) == costs
    assert way_of_ranges([Range("a", 1, 2, rows=5), Range("b", 1, 2)]) == INSERTS
    assert (
        way_of_ranges([Range("a", 1, 2, rows=5, inserts_only=False), Range("b", 1, 2)]) == CHANGES
    )
    # the rows of a table that does not say how many it has stay unknown
    assert with_incremental(Costs(), INSERTS, 5, 5, NOW * 1000, NOW * 1000 + 20).rows is None


def test_a_line_through_what_was_measured_predicts_what_is_like_it() -> None:
    one = Costs(1000).with_run("replaced", 1000, 10.0, NOW).with_run("changes", 20_000, 8.0, NOW)
    # half of what one size took is for no rows
    both = expected(one, 20_000, CHANGES)
    assert (both.incremental, both.replacement) == pytest.approx((8.0, 10.0))
    assert both.runs == 1
    assert expected(one, 80_000, CHANGES).incremental == pytest.approx(20.0)
    assert expected(one, 5_000, CHANGES).incremental == pytest.approx(5.0)
    # four times as many rows, or as few, are the farthest
    assert expected(one, 80_001, CHANGES).incremental is None
    assert expected(one, 4_999, CHANGES).incremental is None
    # rows that are only inserted are another way
    assert expected(one, 20_000, INSERTS).incremental is None
    # the replacement is that of the table as large as it is now
    grown = Costs(3000, one.measured)
    assert expected(grown, 20_000, CHANGES).replacement == pytest.approx(20.0)
    assert expected(Costs(5000, one.measured), 20_000, CHANGES).replacement is None
    assert expected(Costs(None, one.measured), 20_000, CHANGES).replacement is None
    assert expected(Costs(), 20_000, CHANGES) == Predicted()

    # runs of two sizes tell fixed seconds and seconds for each row
    two = one.with_run("changes", 200_000, 26.0, NOW).with_run("changes", 220_000, 28.0, NOW)
    assert expected(two, 100_000, CHANGES).incremental == pytest.approx(16.0, rel=0.05)
    assert expected(two, 400_000, CHANGES).incremental == pytest.approx(46.0, rel=0.05)
    # they never tell less than nothing, nor that more rows take less
    falling = one.with_run("changes", 200_000, 4.0, NOW)
    assert expected(falling, 400_000, CHANGES).incremental == pytest.approx(4.9, rel=0.1)
    steep = Costs().with_run("changes", 20_000, 2.0, NOW).with_run("changes", 200_000, 80.0, NOW)
    at_least = expected(steep, 5_000, CHANGES).incremental
    assert at_least is not None and 0 < at_least < 2.0


def test_what_nobody_measured_for_thirty_days_is_discarded() -> None:
    old = Costs(1000).with_run("replaced", 1000, 10.0, NOW).with_run("changes", 20_000, 8.0, NOW)
    last = NOW + MOST_SECONDS_OLD
    assert expected(old, 20_000, CHANGES, last).replacement == pytest.approx(10.0)
    assert expected(old, 20_000, CHANGES, last + 1) == Predicted()
    # what is of the future is of a clock that was wrong
    assert expected(old, 20_000, CHANGES, NOW - MOST_SECONDS_OLD - 1) == Predicted()
    # a new run replaces it
    assert old.with_run("changes", 30_000, 2.0, last + 1).of("changes") == [
        Measured(1, 30_000, 2.0, last + 1)
    ]


def test_people_are_shown_what_was_measured_and_what_is_expected() -> None:
    costs = Costs(1200).with_run("replaced", 1000, 10.0, NOW).with_run("changes", 20_000, 8, NOW)
    costs = costs.with_run("changes", 30_000, 8, NOW).with_run("inserts", 7, 0.26, NOW)
    assert cost_lines(costs, CHANGES, 300_000, NOW * 1000) == [
        "replacement of 1000 rows: 10.0 s (1 run)",
        "incremental run over 7 inserted rows: 0.3 s (1 run)",
        "incremental run over 23333 changed rows: 8.0 s (2 runs)",
        "predicted for 300000 rows: incremental unknown, replacement 11.0 s",
    ]
    assert len(cost_lines(costs, CHANGES, 0, NOW * 1000)) == 3
    assert cost_lines(Costs(5), CHANGES, 5, NOW * 1000) == []
    assert cost_lines(Costs(), INSERTS, 0, NOW * 1000) == []


RUN = st.tuples(
    st.sampled_from(["replaced", "inserts", "changes"]),
    st.integers(0, 10**12),
    st.floats(-10, 10**7),
    st.integers(NOW - 10**7, NOW),
)


@given(st.lists(RUN, max_size=60), st.integers(0, 10**13), st.integers(0, 10**12))
def test_whatever_was_measured_is_small_and_predicts_a_number(
    runs: list[Any], rows: int, size: int
) -> None:
    costs = Costs(size)
    for way, of, seconds, at in runs:
        costs = costs.with_run(way, of, seconds, at)
    text = noted(costs)
    assert len(text) < 2000
    # what is rounded once is the same ever after
    assert noted(parsed(text)) == text
    told = expected(parsed(text), rows, CHANGES)
    for seconds in (told.incremental, told.replacement):
        assert seconds is None or 0 < seconds < 1e9
    assert cost_lines(costs, CHANGES, rows, NOW * 1000) or not costs.measured


VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NOTES = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["rows", "replaced", "inserts", "changes", "begun"], VALUES)
)


@given(st.text() | VALUES.map(json.dumps) | NOTES.map(json.dumps))
def test_what_cannot_be_read_is_no_history(text: str) -> None:
    costs = costs_of({NOTE: text}, [replaced("a", 5, numOutputRows="x")])
    assert noted(parsed(noted(costs))) == noted(costs)
    told = expected(costs, 20_000, CHANGES)
    assert told.incremental is None or told.incremental > 0
    assert cost_lines(costs, CHANGES, 20_000, NOW * 1000) is not None


def test_what_is_readable_beside_what_is_not_counts() -> None:
    good = [2, 400, 7.0, NOW]
    bad: list[Any] = [[1, 2, 3], "x", [0, 4, 7.0, NOW], [1, -4, 7.0, NOW], [1, 4, -7.0, NOW]]
    text = json.dumps({"rows": "many", "changes": [*bad, good], "replaced": 7, "begun": ["a"]})
    assert parsed(text) == Costs(None, {("changes", 3): Measured(2, 400, 7.0, NOW)})
    assert parsed('{"changes": [[1, 9, NaN, 5], [1, 9, Infinity, 5]], "rows": true}') == Costs()
    assert costs_of({}, []) == parsed(None) == parsed("[]") == parsed("null") == Costs()
    assert parsed(json.dumps({"begun": ["a", 5]})).begun == Begun("a", 5)
