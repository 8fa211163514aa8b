"""Query a Trino by its HTTP protocol, and compare its tables with Spark's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwaters.devkit import trino, trino_check

Row = tuple[Any, ...]

# Expressions of equal values in Spark and in Trino, by the beginning of a type in Spark. Trino
# rounds a timestamp to milliseconds, and writes floating-point numbers in another form.
VALUES: Mapping[str, tuple[str, str]] = {
    "double": ("cast(floor({0} * 1000) as bigint)",) * 2,
    "float": ("cast(floor({0} * 1000) as bigint)",) * 2,
    "timestamp_ntz": (
        "crc32(date_format({0}, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))",
        "crc32(to_utf8(cast(cast({0} as timestamp(6)) as varchar)))",
    ),
    "timestamp": (
        "cast(round(unix_micros({0}) / 1000) as bigint)",
        "cast(round(to_unixtime({0}) * 1000) as bigint)",
    ),
    "array": ("cast(size({0}) as bigint)", "cardinality({0})"),
    "binary": ("crc32({0})", "crc32({0})"),
    "": ("crc32(cast({0} as string))", "crc32(to_utf8(cast({0} as varchar)))"),
}


def java_of_trino() -> str:
    """Return the folder of a Java for Trino; skip the test without one."""
    named = os.environ.get(trino.VARIABLE)
    found = named or next(map(str, Path("/usr/lib/jvm").glob("temurin-25-*")), None)
    if found is None:
        pytest.skip(f"no Java 25 for Trino: set {trino.VARIABLE}")
    return found


def query(port: int, statement: str) -> list[Row]:
    """Run a statement, and return its rows. Raises TrinoError with Trino's message."""
    return trino_check.query(f"http://127.0.0.1:{port}", "delta", statement)


def checksums(columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return expressions of the checksum of each column, in Spark and in Trino."""
    found = [("count(*)", "count(*)")]
    for name, kind in columns:
        spark, trino = next(both for start, both in VALUES.items() if kind.startswith(start))
        spark, trino = spark.format(f"`{name}`"), trino.format(f'"{name}"')
        found.append((f"sum(coalesce({spark}, -1))", f"sum(coalesce({trino}, -1))"))
    return found


def differing(spark: Any, port: int, table: str) -> dict[str, tuple[Any, Any]]:
    """Return the count and the checksums of columns that differ, as Spark's and Trino's values."""
    columns = [(field.name, field.dataType.simpleString()) for field in spark.table(table).schema]
    both = checksums(columns)
    ours = spark.sql(f"select {', '.join(one for one, _ in both)} from {table}").collect()[0]
    (theirs,) = query(port, f"select {', '.join(one for _, one in both)} from {table}")
    names = ["count", *(name for name, _ in columns)]
    return {
        name: (left, right)
        for name, left, right in zip(names, ours, theirs, strict=True)
        if left != right
    }
