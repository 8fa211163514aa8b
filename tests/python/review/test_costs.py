"""Test the expected costs of runs, estimated from the last runs in a table's log."""

from __future__ import annotations

import json

import pytest

from headwaters.review.costs import IncrementalRun, Past, lines, of_a_rebuild, of_a_run, runs_of
from headwaters.review.facts import Cost, Difference, Effort
from headwaters.tables.commits import Commit


def commit(version: int, seconds: float, operation: str, **metrics: int) -> Commit:
    text = {name: str(count) for name, count in metrics.items()}
    return Commit(version, round(seconds * 1000), operation, {}, text)


def noted(version: int, seconds: float, run: str | None) -> Commit:
    """Return the commit of a run's note in the table, at its start or its end."""
    properties = json.dumps({"headwaters.pending": json.dumps(run and {"id": run})})
    parameters = {"properties": properties}
    return Commit(version, round(seconds * 1000), "SET TBLPROPERTIES", parameters, {})


MERGE = {"numTargetRowsInserted": 3, "numTargetRowsUpdated": 1, "numTargetRowsDeleted": 0}
COMMITS = [
    commit(9, 210, "OPTIMIZE"),
    noted(8, 205, None),
    commit(7, 204, "MERGE", **MERGE, numTargetBytesAdded=400),
    noted(6, 200, "b"),
    commit(5, 150, "DELETE", numDeletedRows=7),  # a foreign commit: no run noted it
    noted(4, 103, None),
    commit(3, 102, "WRITE", numOutputRows=12, numCopiedRows=4, numDeletedRows=2, numOutputBytes=90),
    noted(2, 100, "a"),
    noted(1, 99, "interrupted"),
    commit(0, 50, "CREATE OR REPLACE TABLE AS SELECT", numOutputRows=100, numOutputBytes=5_000),
]
DIFFERENCE = Difference(100, 120, 20, 0, 0, by_key=True)


def test_incremental_runs_are_read_from_the_log() -> None:
    # an overwrite without a condition replaces the whole table
    replaced = commit(3, 102, "WRITE", numOutputRows=12)
    replaced = Commit(3, 102_000, "WRITE", {"mode": "Overwrite"}, replaced.metrics)
    assert runs_of(COMMITS) == [IncrementalRun(4, 400, 4.0), IncrementalRun(10, 90, 2.0)]
    assert runs_of([*COMMITS[:6], replaced, *COMMITS[7:]]) == [IncrementalRun(4, 400, 4.0)]
    assert runs_of(COMMITS[4:5]) == []


def test_a_run_is_predicted_by_the_last_ones() -> None:
    past = Past(COMMITS)
    both = "the median of its last 2 runs, without planning"
    assert of_a_run(past) == Effort(3.0, round((100 + 9) / 2 * 7), None, both)
    assert of_a_run(past, 2) == Effort(3.0, 109, None, both)
    assert of_a_run(Past(COMMITS[5:]), 2) == Effort(2.0, 18, None, "its last run, without planning")
    assert of_a_run(Past(COMMITS[-1:])) is None


def test_a_rebuild_is_predicted_by_sizes() -> None:
    past = Past(COMMITS, 100, 5_000, 70_000)
    basis = "the sizes of the table and of what it reads"
    assert of_a_rebuild(past, DIFFERENCE, None) == Effort(None, 6_000, 70_000, basis)
    assert of_a_rebuild(past, DIFFERENCE, 3.5) == Effort(
        3.5, 6_000, 70_000, f"{basis}, the time of the base's full computation"
    )
    assert of_a_rebuild(Past(COMMITS), DIFFERENCE, 3.5) is None
    assert of_a_rebuild(past, None, 3.5) is None


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (
            Cost("rebuild", "", "", 3.8, 218, Effort(None, 215, 604, "sizes")),
            [
                (
                    "one-off",
                    "no run to go by for its time, 215 B written, 604 B read, by sizes",
                    "3.8 s, 218 B written",
                ),
                ("next run", "no run to go by", ""),
            ],
        ),
        (
            Cost(
                "nothing", "", "", None, None, None, Effort(2, 9, None, "its last run"), Effort(3)
            ),
            [("next run", "2.0 s, 9 B written, by its last run", "3.0 s")],
        ),
    ],
)
def test_what_is_predicted_stands_beside_what_was_measured(
    cost: Cost, said: list[tuple[str, str, str]]
) -> None:
    assert lines(cost) == said
