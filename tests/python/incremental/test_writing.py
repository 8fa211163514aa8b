"""How a change set is written: by a replacement of its keys, and when by a merge."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwaters.incremental.writing import Write, is_one_of, way_of_writing

ENGINE = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"
LOOK: dict[str, Any] = {
    "rows": 6,
    "inserted": 1,
    "updated": 3,
    "deleted": 2,
    "key_types": ["bigint", "string"],
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
        ({"rows": 9999, "deleted": 5000}, None, ENGINE, 0, Write("replace")),
        (
            {"rows": 9999, "deleted": 5001},
            None,
            ENGINE,
            0,
            Write("merge", "more than 5000 rows are deleted"),
        ),
        (
            {"key_types": ["timestamp_ntz", "decimal(3,1)", "date"]},
            None,
            ENGINE,
            0,
            Write("replace"),
        ),
        (
            {"key_types": ["int", "double"]},
            None,
            ENGINE,
            0,
            Write("merge", "a key of type double cannot be told by its hash"),
        ),
        (
            {"key_types": ["string collate UTF8_LCASE"]},
            None,
            ENGINE,
            0,
            Write("merge", "a key of type string collate UTF8_LCASE cannot be told by its hash"),
        ),
        ({"key_types": ["double"], "rows": 4, "deleted": 0}, None, ENGINE, 0, Write("replace")),
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


BIGINTS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(BIGINTS, min_size=1, max_size=50), BIGINTS)
def test_a_number_is_found_in_its_bucket(numbers: list[int], other: int) -> None:
    sql = is_one_of("h", numbers)
    buckets = json.loads(re.findall(r"from_json\('(.*?)', 'array<array<bigint>>'\)", sql)[0])
    assert sql == (
        f"array_contains(element_at(from_json('{json.dumps(buckets, separators=(',', ':'))}',"
        f" 'array<array<bigint>>'), cast(1 + pmod(h, {len(numbers)}) as int)), h)"
    )
    for number in (*numbers, other):
        assert (number in buckets[number % len(numbers)]) == (number in numbers)
