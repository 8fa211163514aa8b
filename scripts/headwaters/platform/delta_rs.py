"""Delta tables read by delta-rs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

# INT96 timestamps, from other writers and older releases, default to nanoseconds, which overflow
# before 1677 and after 2262.
_SETTINGS = {"datafusion.execution.parquet.coerce_int96": "us"}


def query(**tables: DeltaTable) -> QueryBuilder:
    """Return a query over tables, each by its name."""
    builder = QueryBuilder(_SETTINGS)
    for name, table in tables.items():
        builder.register(name, table)
    return builder


def read(builder: QueryBuilder, sql: str) -> pa.RecordBatchReader:
    """Return the rows of a statement."""
    return pa.RecordBatchReader.from_stream(builder.execute(sql))


def rows_of(table: Path, sql: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a statement over one table, `t`. Raises DeltaError."""
    with without_panic():
        for batch in read(query(t=DeltaTable(table)), sql):
            yield from batch.to_pylist()


@contextmanager
def without_panic() -> Iterator[None]:
    """Raise DeltaError if delta-rs panics, for example over a year that it does not support.

    Python does not treat a panic as an Exception, and would end the process with a stack trace.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise DeltaError(f"delta-rs panicked: {error}") from None
