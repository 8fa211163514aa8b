"""Delta tables read by delta-rs, without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError

from headwaters.platform import object_store
from headwaters.platform.places import Place

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


def open_table(place: Place, version: int | None = None) -> DeltaTable:
    """Open the table in a folder or in a store. Raises DeltaError."""
    if isinstance(place, Path):
        return DeltaTable(place, version=version)
    scheme = place.bucket.uri.partition(":")[0]
    options = object_store.client_options(scheme, place.bucket.settings, os.environ)
    names = {"endpoint": "AWS_ENDPOINT_URL", "region": "AWS_REGION"}
    given = {names.get(name, f"aws_{name}"): value for name, value in options.items()}
    if options.get("endpoint", "").startswith("http://"):
        given["AWS_ALLOW_HTTP"] = "true"
    return DeltaTable(str(place), version=version, storage_options=given)


def rows_of(table: Place, sql: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a statement over one table, `t`. Raises DeltaError."""
    with without_panic():
        for batch in read(query(t=open_table(table)), sql):
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
