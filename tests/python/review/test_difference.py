"""Test the counts and the examples of differing rows, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwaters.review import difference as differing
from headwaters.review.facts import Difference, Example

LONG = "x" * 300


@pytest.fixture
def schema(spark: Any, name: str = "differences") -> Iterator[str]:
    """Yield a schema with two tables that differ in texts, numbers and last digits of sums."""
    spark.sql(f"create schema {name}")
    rows = {
        "before": f"(1, '{LONG}1', 0.1D, 1F), (2, 'b', 100000000.01D, 2F), (3, 'c', 3D, 3F),"
        " (4, 'd', double('inf'), 4F), (5, 'e', null, 5F)",
        "after": f"(1, '{LONG}2', 0.10000000000000002D, 1F), (2, 'b', 100000000.02D, 2F),"
        " (3, 'c', 3.0000000000000004D, 3.0000002F), (4, 'd', 4D, 4F), (6, 'f', 6D, 6F)",
    }
    for table, values in rows.items():
        spark.sql(f"create table {name}.{table} as select * from values {values} as t(id, v, x, f)")
    yield name
    spark.sql(f"drop schema {name} cascade")


TYPES = {"id": "int", "v": "string", "x": "double", "f": "float"}


def found(spark: Any, schema: str, key: tuple[str, ...]) -> tuple[Difference, dict[str, int], Any]:
    """Return the counts of a comparison, those of its columns, and its examples."""
    pair = differing.Pair(f"{schema}.before", f"{schema}.after", TYPES, TYPES, key)
    find = differing.differing_by_key_sql if key else differing.differing_multisets_sql
    staged = f"{schema}.staged"
    spark.sql(f"create table {staged} using parquet as {find(pair)}")
    row = spark.sql(differing.counts_sql(pair, staged, bool(key))).collect()[0].asDict()
    told, columns = differing.of_counts(pair, row, (5, 5), bool(key), None)
    shown = differing.examples_of_multisets_sql(pair, staged)
    if key:
        kinds = spark.sql(differing.kinds_sql(pair, staged)).collect()
        chosen = differing.telling([differing.Alike(*kind) for kind in kinds])
        shown = differing.examples_by_key_sql(pair, staged, chosen)
    rows = [one.asDict() for one in spark.sql(shown).collect()]
    return told, columns, differing.of_examples(pair, rows, bool(key))


def test_last_digits_are_told_apart_and_long_texts_begin_at_their_difference(
    spark: Any, schema: str
) -> None:
    told, columns, examples = found(spark, schema, ("id",))
    assert told == Difference(5, 5, 1, 1, 3, by_key=True, rounded=1)
    assert columns == {"v": 1, "x": 2, "f": 0}
    changed = {one.key["id"]: one for one in examples if one.change == "changed"}
    assert changed == {
        "1": Example(
            "changed", {"id": "1"}, {"v": "x" * 40 + "1"}, {"v": "x" * 40 + "2"}, {"v": 260}
        ),
        "2": Example("changed", {"id": "2"}, {"x": "1.0000000001E8"}, {"x": "1.0000000002E8"}),
        "4": Example("changed", {"id": "4"}, {"x": "Infinity"}, {"x": "4.0"}),
    }


def test_without_a_key_rows_that_differ_in_last_digits_are_equal(spark: Any, schema: str) -> None:
    told, columns, examples = found(spark, schema, ())
    assert (told, columns) == (Difference(5, 5, 4, 4, 0, by_key=False, rounded=1), {})
    ids = [(one.change, (one.before or one.after)["id"]) for one in examples]
    assert sorted(ids) == [
        *(("added", number) for number in "1246"),
        *(("removed", number) for number in "1245"),
    ]
    pair = differing.Pair(f"{schema}.before", f"{schema}.after", TYPES, TYPES, ())
    assert spark.sql(differing.unequal_rows_sql(pair)).collect()[0][0] == 8
