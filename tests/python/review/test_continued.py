"""Test which of production's tables a review may start from, by their commits and properties."""

from __future__ import annotations

from typing import Any

import pytest

from headwaters.review.continued import are_same, can_continue
from headwaters.review.sides import Side, followers, read_by_tests, tables_above
from headwaters.tables.commits import Commit


def commit(version: int, operation: str) -> Commit:
    return Commit(version, 1000 * version, operation, {}, {})


@pytest.mark.parametrize(
    ("noted", "version", "same"),
    [
        ({"version": 3, "at": 3000}, 3, True),
        ({"version": 1, "at": 1000}, 3, True),
        ({"version": 1, "at": 999_000}, 3, False),  # another table
        ({"version": 0, "at": 0}, 3, False),  # a merge in between
        ({"version": 3, "at": 3000}, 4, False),  # columns in between
        ({"version": 4, "at": 4000}, 3, False),  # production has applied more
        ({"version": -9, "at": 0}, 3, False),  # no longer in the history
    ],
)
def test_a_table_is_the_same_where_no_commit_changed_rows_or_columns(
    noted: dict[str, int], version: int, same: bool
) -> None:
    operations = ["CREATE TABLE AS SELECT", "MERGE", "SET TBLPROPERTIES", "OPTIMIZE", "ADD COLUMNS"]
    commits = [commit(n, operation) for n, operation in enumerate(operations)][::-1]
    assert are_same(commits, noted, version) is same


@pytest.mark.parametrize(
    ("config", "can"),
    [
        ({"incremental_strategy": "change_feed"}, True),
        ({"incremental_strategy": "auto"}, True),
        ({"incremental_strategy": "history"}, False),  # a rebuild loses its past
        ({"incremental_strategy": "merge"}, False),  # dbt's own record no applied versions
        ({"materialized": "table"}, False),
        ({"incremental_strategy": "change_feed", "on_gap": "fail"}, False),
        ({"incremental_strategy": "change_feed", "meta": {"on_foreign_write": "fail"}}, False),
    ],
)
def test_only_what_says_its_applied_versions_continues(config: dict[str, Any], can: bool) -> None:
    node = {"resource_type": "model", "config": {"materialized": "incremental", **config}}
    assert can_continue(node) is can


def node(kind: str, reads: list[str], **more: Any) -> dict[str, Any]:
    return {
        "resource_type": "model",
        "config": {"materialized": kind},
        "depends_on": {"nodes": reads},
        **more,
    }


def test_what_is_read_through_views_and_by_tests_counts() -> None:
    nodes = {
        "source": {"resource_type": "source", "config": {}},
        "first": node("incremental", ["source"]),
        "view": node("view", ["first"]),
        "part": node("ephemeral", ["view"]),
        "last": node("incremental", ["part", "other"]),
        "other": node("table", []),
        "test": {"resource_type": "test", "config": {}, "depends_on": {"nodes": ["last", "far"]}},
        "far": node("table", []),
    }
    side = Side(nodes, {}, {})
    built = ("first", "view", "last")
    assert tables_above("last", built, side) == {"first"}
    assert tables_above("first", built, side) == set()
    assert followers(built, side) == {"source": ["first"], "other": ["last"]}
    assert read_by_tests(built, side) == ("far",)
