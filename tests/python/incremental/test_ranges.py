"""Test the reading of an input's changes for a run that only counts them."""

from __future__ import annotations

from typing import Any

from headwaters.runs.ranges import read_range
from headwaters.tables.commits import Commit

CREATED = {"properties": '{"delta.enableChangeDataFeed": "true"}', "partitionBy": "[]"}
ENGINE = "Apache-Spark/4.1.0 Delta-Lake/4.1.0"


def commit(version: int, operation: str, parameters: dict[str, str], rows: int = 0) -> Commit:
    return Commit(version, version, operation, parameters, {"numOutputRows": str(rows)}, ENGINE)


BUILT = commit(3, "CREATE OR REPLACE TABLE AS SELECT", CREATED, 7)
RETYPED = commit(3, "CHANGE COLUMN", {})
APPENDED = commit(3, "WRITE", {"mode": "Append"}, 7)


class Session:
    """An invocation over a table of these commits, whose columns differ between versions."""

    def __init__(self, *commits: Commit) -> None:
        built = commit(1, "CREATE TABLE", CREATED)
        self.commits = [*commits, commit(2, "WRITE", {"mode": "Append"}, 3), built]
        self.connection = self
        self.called: list[str] = []

    def macros(self, name: str, *arguments: Any) -> dict[int, str]:
        self.called.append(name)
        return {2: "struct<a:int>", 3: "struct<a:bigint>"}

    def known_history(self, *arguments: Any) -> list[Commit]:
        return self.commits

    def columns_at(self, table: str, commit: Any) -> list[Any]:
        return []


def read(newest: Commit, counts_only: bool) -> tuple[Any, list[str]]:
    session: Any = Session(newest)
    spec = {"source": "s.t", "kind": "affected", "version": 3, "at": 3}
    return read_range(session, spec, {"version": 2, "at": 2}, counts_only), session.called


def test_rows_are_counted_by_the_log_alone() -> None:
    changes, called = read(BUILT, counts_only=True)
    assert (changes.rows, changes.gap, called) == (7, None, [])
    changes, called = read(APPENDED, counts_only=True)
    assert (changes.rows, changes.gap, called) == (7, None, [])
    changes, called = read(BUILT, counts_only=False)
    assert changes.gap == "s.t was replaced by a table of other columns"
    assert called == ["hw_columns_around"]


def test_altered_columns_decide_although_no_row_changed() -> None:
    for counts_only in (True, False):
        changes, called = read(RETYPED, counts_only)
        assert changes.gap == "s.t changed the types or the order of its columns"
        assert called == ["hw_columns_around"]
