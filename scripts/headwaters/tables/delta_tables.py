"""A Delta table that a stream writes: created, widened and read by path, without a metastore."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headwaters.platform.delta_version import features_of_types
from headwaters.platform.errors import UserError
from headwaters.platform.places import Place
from headwaters.platform.sql import literal
from headwaters.tables.delta_log import exists
from headwaters.tables.properties import CHECKPOINTS, DECLARED, ends_deletion_vectors


@dataclass(frozen=True)
class TableSize:
    """The number of files and bytes of a table; `below` counts files by a bound of their bytes."""

    files: int
    bytes: int
    below: Mapping[int, int]


# Small files slow readers down. Files are compacted with those of their class, each eight times as
# large as the previous one. A row is therefore rewritten at most three times, and a batch waits
# only briefly. Larger files stay. Delta counts files by these bounds among others.
SMALL = (2**20, 2**23, 2**26)
TOO_MANY = 50


class TableSnapshot:
    """A table at one moment: its snapshot is read once, and again after its own write.

    Take a new one for each batch, because other processes may have written.
    """

    def __init__(self, spark: SparkSession, path: Place) -> None:
        """Open the table in this folder, which need not exist yet."""
        self.spark, self.path = spark, path
        self._known: Any = None

    @property
    def name(self) -> str:
        """Return the table's own name."""
        return self.path.name

    @property
    def _sql_name(self) -> str:
        return f"delta.`{self.path}`"

    @property
    def _snapshot(self) -> Any:
        """Return the table at its newest commit, from Delta's own classes."""
        if self._known is None:
            jvm: Any = self.spark._jvm
            none = jvm.scala.Option.empty()
            logs = jvm.org.apache.spark.sql.delta.DeltaLog
            log = logs.forTable(self.spark._jsparkSession, str(self.path))
            self._known = log.update(False, none, none)
        return self._known

    @property
    def version(self) -> int:
        """Return the number of the newest commit."""
        return int(self._snapshot.version())

    @property
    def batches(self) -> dict[str, int]:
        """Return the last batch of each writer (`txnAppId`).

        Delta shows writers' transactions in no SQL statement, so this reads the log.
        """
        transactions = self._snapshot.setTransactions()
        found = (transactions.apply(index) for index in range(transactions.size()))
        return {transaction.appId(): transaction.version() for transaction in found}

    @property
    def size(self) -> TableSize:
        """Return the table's size, from the checksum file of a commit if it exists.

        Delta itself runs a Spark job for it, which takes longer than the write of a small batch.
        """
        checksum = self.path / "_delta_log" / f"{self.version:020}.crc"
        try:
            known = json.loads(checksum.read_text())
            sizes = known["fileSizeHistogram"]
            counted = list(zip(sizes["sortedBinBoundaries"], sizes["fileCounts"], strict=True))
            below = {end: sum(n for start, n in counted if start < end) for end in SMALL}
            return TableSize(known["numFiles"], known["tableSizeBytes"], below)
        except (OSError, ValueError, KeyError):
            files, total = self._snapshot.numOfFiles(), self._snapshot.sizeInBytes()
            return TableSize(files, total, {SMALL[-1]: files - total // SMALL[-1]})

    def now(self) -> DataFrame:
        """Return the rows of the table."""
        return self.spark.read.format("delta").load(str(self.path))

    def at(self, version: int) -> DataFrame:
        """Return the rows of the table at a version."""
        return self.spark.read.format("delta").option("versionAsOf", version).load(str(self.path))

    def columns(self) -> list[tuple[str, str]]:
        """Return name and type of every column."""
        return [(field.name, field.dataType.simpleString()) for field in self.now().schema]

    def append(self, rows: DataFrame, app: str, batch: int) -> None:
        """Append rows, unless this writer has already written this batch."""
        self._known = None
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", app)
            .option("txnVersion", batch)
            .save(str(self.path))
        )

    def add_columns(self, added: Sequence[tuple[str, str]]) -> None:
        """Add columns that the table does not have."""
        self._known = None
        if features := features_of_types(_ddl(added)):
            self.spark.sql(
                f"alter table {self._sql_name} set tblproperties ({_assigned(features)})"
            )
        self.spark.sql(f"alter table {self._sql_name} add columns ({_ddl(added)})")

    def compact(self, below: int) -> None:
        """Compact files smaller than this. Readers of older versions keep their files."""
        self._known = None
        self.spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(below))
        self.spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(2 * SMALL[-1]))
        self.spark.sql(f"optimize {self._sql_name}")

    def make(self, columns: Sequence[tuple[str, str]], properties: Mapping[str, str]) -> None:
        """Create the table, or add the columns and set the properties that it lacks.

        Only properties that are no longer declared are removed. If dbt runs first, the macro
        `register_sources` creates the same table. A table without columns is one that dbt is
        registering at this moment. Raises UserError if a column has another type in the table.
        """
        self._known = None
        settings = _assigned(properties)
        self._create(columns, settings)
        if missing := self.missing(columns):
            self.add_columns(missing)
        self._bring_properties(properties, settings)

    def _create(self, columns: Sequence[tuple[str, str]], settings: str) -> None:
        if not (self.path / "_delta_log").is_dir():
            self.spark.sql(
                f"create table if not exists {self._sql_name} ({_ddl(columns)}) "
                f"using delta tblproperties ({settings})"
            )
        elif not exists(self.path):
            # a full disk stopped its first commit: SQL would treat it as a table
            empty = self.spark.createDataFrame([], _ddl(columns))
            empty.write.format("delta").mode("ignore").save(str(self.path))

    def missing(self, columns: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return the columns that the table lacks.

        Raises:
            UserError: a column has another type in the table, because nothing rewrites a table
                unasked.
        """
        present = {
            field.name.lower(): field.dataType for field in self.spark.table(self._sql_name).schema
        }
        wanted = cast(StructType, StructType.fromDDL(_ddl(columns)))
        for field in wanted:
            found = present.get(field.name.lower(), field.dataType)
            if found != field.dataType:
                raise UserError(
                    "HW_COLUMN_TYPE",
                    f"{self.path.parent.stem}.{self.name}: column {field.name} is "
                    f"{found.simpleString()} in the table and "
                    f"{field.dataType.simpleString()} in the contract: declare the old type, or "
                    "another column",
                )
        return [column for column in columns if column[0].lower() not in present]

    def _bring_properties(self, properties: Mapping[str, str], settings: str) -> None:
        rows = self.spark.sql(f"show tblproperties {self._sql_name}").collect()
        held = {row["key"]: row["value"] for row in rows}
        once = [name for name in held.get(DECLARED, "").split(", ") if name in held]
        if gone := ", ".join(literal(name) for name in once if name not in properties):
            self.spark.sql(f"alter table {self._sql_name} unset tblproperties ({gone})")
        if not held.items() >= properties.items():
            if ends_deletion_vectors(held, properties):
                self._purge(held.get(CHECKPOINTS))
            self.spark.sql(f"alter table {self._sql_name} set tblproperties ({settings})")

    def _purge(self, interval: str | None) -> None:
        """Rewrite the files with deletion vectors, with a checkpoint of the log after it."""
        alter = f"alter table {self._sql_name}"
        self.spark.sql(f"reorg table {self._sql_name} apply (purge)")
        self.spark.sql(f"{alter} set tblproperties ({_assigned({CHECKPOINTS: '1'})})")
        if interval:
            self.spark.sql(f"{alter} set tblproperties ({_assigned({CHECKPOINTS: interval})})")
        else:
            self.spark.sql(f"{alter} unset tblproperties ({literal(CHECKPOINTS)})")


def to_compact(table: TableSize) -> int | None:
    """Return the size below which a table's files are numerous enough to compact, or None."""
    return next((bound for bound, files in table.below.items() if files > TOO_MANY), None)


def _assigned(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(key)} = {literal(value)}" for key, value in properties.items())


def _ddl(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)
