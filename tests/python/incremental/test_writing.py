"""Test the ways to write a change set: a replacement of its keys, or a merge."""

from __future__ import annotations

from typing import Any

import pytest

from headwaters.runs.decisions import Write, way_of_writing

ENGINE = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"
LOOK: dict[str, Any] = {
    "rows": 6,
    "inserted": 1,
    "updated": 3,
    "deleted": 2,
}


@pytest.mark.parametrize(
    ("look", "apply_by", "engine", "models", "write"),
    [
        ({}, None, ENGINE, 0, Write("replace")),
        ({}, "keys", ENGINE, 3, Write("replace")),
        ({}, "merge", ENGINE, 0, Write("merge", "as apply_by says")),
        ({}, None, ENGINE, 4, Write("merge", "4 models follow the table")),
        ({"rows": 6, "inserted": 6}, "merge", "", 9, Write("insert")),
        ({"rows": 2}, None, ENGINE, 0, Write("merge", "rows are only deleted")),
        ({"rows": 4, "deleted": 0}, None, ENGINE, 0, Write("replace")),
        ({"rows": 10**6, "deleted": 10**6 - 4}, None, ENGINE, 0, Write("replace")),
    ],
)
def test_the_way_of_writing(
    look: dict[str, Any], apply_by: str | None, engine: str, models: int, write: Write
) -> None:
    assert way_of_writing(LOOK | look, apply_by, engine, models) == write


@pytest.mark.parametrize(
    ("engine", "way"),
    [
        ("Apache-Spark/4.2.0 Delta-Lake/4.4.0", "replace"),
        ("Apache-Spark/4.3.1-SNAPSHOT Delta-Lake/5.0.0", "replace"),
        ("Apache-Spark/4.0.1 Delta-Lake/4.3.9", "merge"),
        ("Apache-Spark/3.5.0 Delta-Lake/3.10.0", "merge"),
        ("Databricks-Runtime/18.0", "merge"),
        ("delta-rs:1.5.0", "merge"),
        ("", "merge"),
    ],
)
def test_an_option_that_the_engine_may_not_know_would_overwrite_the_table(
    engine: str, way: str
) -> None:
    assert way_of_writing(LOOK, None, engine, 0).way == way
