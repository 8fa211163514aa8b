"""Rows between Spark and the client: collected as Arrow, and shown to Spark as a view."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyspark.sql.types import StructField, StructType

from headwaters.platform.sql import identifier
from headwaters.runs.client_rows import (
    MOST_BYTES,
    MOST_ROWS,
    ClientRows,
    is_carried,
    is_too_long,
    may_be_compared,
    nullable,
)

_LONG = "_hw_is_long"


def collect(frame: Any, keys: Collection[str]) -> ClientRows | None:
    """Return the rows of a query, or None if they are many, large or cannot be carried exactly.

    `keys` are columns that the client compares.
    """
    fields = frame.schema.fields
    types = {field.name: field.dataType.simpleString() for field in fields}
    if not all(is_carried(field.dataType) for field in fields):
        return None
    compared = {key.lower() for key in keys}
    if not may_be_compared(kind for name, kind in types.items() if name.lower() in compared):
        return None
    columns, every = [], []
    for field in fields:
        column = identifier(field.name)
        long = is_too_long(column, field.dataType)
        every += long
        value = nullable(column, field.dataType)
        value = f"if({' or '.join(long)}, null, {value})" if long else value
        columns.append(column if value == column else f"{value} as {column}")
    if every:
        columns.append(f"coalesce({' or '.join(every)}, false) as {_LONG}")
    selected = frame.selectExpr(*columns).limit(MOST_ROWS + 1)
    table = selected.toArrow()
    if table.num_rows > MOST_ROWS or table.nbytes > MOST_BYTES:
        return None
    if every:
        if True in table.column(_LONG).to_pylist():
            return None
        table = table.drop_columns([_LONG])
    # like a staging table, without metadata of columns, and without columns that have no nulls
    schema = StructType(
        [
            StructField(field.name, field.dataType)
            for field in selected.schema
            if field.name in types
        ]
    )
    return ClientRows(table, types, schema)


def show(spark: Any, name: str, rows: ClientRows) -> None:
    """Show rows to Spark as a global temporary view."""
    spark.createDataFrame(rows.table, rows.schema).createOrReplaceGlobalTempView(name)
