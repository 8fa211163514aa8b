"""The Delta tables that a stream writes: made, widened and asked by path, without a metastore."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwaters.contract import DECLARED
from headwaters.delta_log import exists
from headwaters.errors import UserError


@dataclass(frozen=True)
class State:
    """What a table's log says: its version, and the last batch of each writer (`txnAppId`)."""

    version: int
    batches: Mapping[str, int]


@dataclass(frozen=True)
class Size:
    """How many files and bytes a table has; `below` counts files by a bound of their bytes."""

    files: int
    bytes: int
    below: Mapping[int, int]


def make_table(
    spark: SparkSession,
    path: Path,
    columns: Sequence[tuple[str, str]],
    properties: Mapping[str, str],
) -> None:
    """Make the table, or add the columns and set the properties that it lacks.

    Properties that were declared once and are no longer are taken away, and no others.
    The macro `register_sources` makes the same table when dbt comes first. A table without
    columns is one that dbt is registering at this moment. Raises UserError when a column has
    another type in the table: changing it means rewriting the table, which nothing does unasked.
    """
    table = f"delta.`{path}`"
    settings = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
    if not (path / "_delta_log").is_dir():
        spark.sql(
            f"create table if not exists {table} ({_ddl(columns)}) "
            f"using delta tblproperties ({settings})"
        )
    elif not exists(path):  # its first commit met a full disk: SQL would take it for a table
        empty = spark.createDataFrame([], _ddl(columns))
        empty.write.format("delta").mode("ignore").save(str(path))
    present = {field.name.lower(): field.dataType for field in spark.table(table).schema}
    wanted = cast(StructType, StructType.fromDDL(_ddl(columns)))
    for field in wanted:
        found = present.get(field.name.lower(), field.dataType)
        if found != field.dataType:
            raise UserError(
                f"bronze.{path.name}: column {field.name} is {found.simpleString()} in the table "
                f"and {field.dataType.simpleString()} in the contract: declare the old type, or "
                "another column"
            )
    missing = [column for column in columns if column[0].lower() not in present]
    if missing:
        spark.sql(f"alter table {table} add columns ({_ddl(missing)})")
    rows = spark.sql(f"show tblproperties {table}").collect()
    held = {row["key"]: row["value"] for row in rows}
    once = [name for name in held.get(DECLARED, "").split(", ") if name in held]
    if gone := ", ".join(_text(name) for name in once if name not in properties):
        spark.sql(f"alter table {table} unset tblproperties ({gone})")
    if not held.items() >= properties.items():
        spark.sql(f"alter table {table} set tblproperties ({settings})")


def state(spark: SparkSession, path: Path) -> State:
    """The table as its newest commit left it.

    Delta shows writers' transactions in no SQL statement, so this asks the log itself.
    """
    snapshot = _snapshot(spark, path)
    transactions = snapshot.setTransactions()
    batches = {}
    for index in range(transactions.size()):
        transaction = transactions.apply(index)
        batches[transaction.appId()] = transaction.version()
    return State(snapshot.version(), batches)


def size(spark: SparkSession, path: Path) -> Size:
    """The table's size, from the checksum that Delta leaves beside a commit, where it does.

    Delta itself runs a Spark job for it, which takes longer than to write a small batch.
    """
    snapshot = _snapshot(spark, path)
    checksum = path / "_delta_log" / f"{snapshot.version():020}.crc"
    try:
        known = json.loads(checksum.read_text())
        sizes = known["fileSizeHistogram"]
        counted = list(zip(sizes["sortedBinBoundaries"], sizes["fileCounts"], strict=True))
        below = {end: sum(n for start, n in counted if start < end) for end in SMALL}
        return Size(known["numFiles"], known["tableSizeBytes"], below)
    except (OSError, ValueError, KeyError):
        files, total = snapshot.numOfFiles(), snapshot.sizeInBytes()
        return Size(files, total, {SMALL[-1]: files - total // SMALL[-1]})


def _snapshot(spark: SparkSession, path: Path) -> Any:
    jvm: Any = spark._jvm
    none = jvm.scala.Option.empty()
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(path))
    return log.update(False, none, none)


def columns(spark: SparkSession, path: Path) -> list[tuple[str, str]]:
    """Name and type of every column."""
    schema = spark.read.format("delta").load(str(path)).schema
    return [(field.name, field.dataType.simpleString()) for field in schema]


def add_columns(spark: SparkSession, path: Path, added: Sequence[tuple[str, str]]) -> None:
    """Add columns that the table does not have."""
    spark.sql(f"alter table delta.`{path}` add columns ({_ddl(added)})")


# Small files cost readers. Files are joined with those of their own class, each eight times as
# large as the one before, so that a row is written again three times at most and a batch waits for
# little; larger ones are left alone. These are among the bounds by which Delta counts files.
SMALL = (2**20, 2**23, 2**26)
TOO_MANY = 50


def to_compact(table: Size) -> int | None:
    """The size below which a table has so many files that they are to be joined, or None."""
    return next((bound for bound, files in table.below.items() if files > TOO_MANY), None)


def compact(spark: SparkSession, path: Path, below: int) -> None:
    """Join files smaller than this. Readers of older versions keep the files that they need."""
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(below))
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(2 * SMALL[-1]))
    spark.sql(f"optimize delta.`{path}`")


def _ddl(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
