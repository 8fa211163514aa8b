"""Delta tables read by delta-rs, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

# Timestamps of INT96, which other writers' files and those of older releases have: by default they
# are nanoseconds, and years before 1677 and after 2262 wrap.
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


@contextmanager
def without_panic() -> Iterator[None]:
    """Raise DeltaError where delta-rs panics, as over a year that it does not know.

    Python takes a panic for no Exception, and would end the process with a stack trace.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise DeltaError(f"delta-rs panicked: {error}") from None
