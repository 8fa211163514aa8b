"""The protocol of a format: it reads files and parses records.

A batch is split by `_good`, which is cheap. `_bad` costs more and is computed only for batches with
bad records: null for a good record, else the first of its `problems`. This module only builds
expressions; it reads and writes nothing, except for the schemas of files.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

import headwaters.streams.contract as declared
from headwaters.platform import places
from headwaters.platform.places import Place
from headwaters.streams.contract import Contract
from headwaters.streams.formats.problems import (
    Problem,
    broken_constraints,
    cut_number,
    no_problem,
    null,
    year_problem,
)
from headwaters.streams.formats.tombstones import (
    accepts_tombstones,
    is_tombstone,
    key_columns,
    no_key,
)

CORRUPT = "_corrupt"
PLACE = "_place"  # identifies a record within its batch during parsing
# Columns that quarantine stores besides the record and its origin.
KEPT = ("_batch_id", "_ingested_at", "_reason")


def patterns(files: Sequence[Place]) -> list[str]:
    """Return the URIs of files for Spark, which takes a name as a pattern."""
    return [re.sub(r"([\\\[\]{}*?])", r"\\\1", places.uri(file)) for file in files]


def has_text(line: Column) -> Column:
    """Return whether a line has more than blanks, tabs and a carriage return.

    Other lines are empty, as for Spark's own reader of JSON. One of zero bytes is not.
    """
    return F.trim(line, F.lit(" \t\r")) != ""


class Format(ABC):
    """A format, with the contract of one stream."""

    def __init__(self, contract: Contract) -> None:
        """Create the format of a contract."""
        self.contract = contract

    def of_message(self, value: Column) -> Column:
        """Return the record in a Kafka message."""
        return value

    def noted(
        self, raw: DataFrame, unread: Mapping[str, str] | None
    ) -> tuple[DataFrame, Mapping[str, str]]:
        """Return the messages of a batch with their schemas noted, and the unreadable ones.

        `unread` are those of a batch that is repeated, or None.
        """
        return raw, {}

    @abstractmethod
    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Return typed columns of the records, `_raw`, and columns for the format's own use.

        A value that does not fit its type is null.
        """

    @abstractmethod
    def problems(self) -> list[Problem]:
        """Return the possible problems of a typed record, in order, before those of constraints."""

    def of_row(self) -> tuple[declared.DeclaredColumn, ...]:
        """Return the columns to read from a record of a row."""
        return self.contract.read_columns

    def of_bronze(self) -> tuple[declared.DeclaredColumn, ...]:
        """Return the columns that bronze has of a record."""
        return self.contract.stored_columns

    def rescued(self) -> Column:
        """Return the undeclared fields of a typed record as JSON, or null."""
        return null()

    def lacks(self, name: str) -> Column | None:
        """Return whether a record lacks a value that its row has; None if the format forbids it."""
        return None

    def is_delete(self) -> Column | None:
        """Return whether a record deletes a row, and may contain only its key; None if none can."""
        return None

    def parse_again(self, rows: DataFrame) -> DataFrame:
        """Parse rows of quarantine from their bytes, like `parse`; the columns of `KEPT` stay."""
        return self.parse(as_kept(self.contract, rows, F.col("record")), KEPT)

    def parse(self, raw: DataFrame, kept: Sequence[str] = ()) -> DataFrame:
        """Return the contract's columns, `_good`, `_bad`, `_raw` and `_rescued` of each record.

        `raw` comes from `files` or a source, with the source's lineage and the columns in `kept`.
        """
        origin = [*self.contract.origin, *kept]
        typed = self.typed(raw, origin)
        key = key_columns(self.contract)
        for name, value in key.items():
            if name in typed.columns:
                typed = typed.withColumn(name, _or_key(F.col(f"`{name}`"), value))
        for column in self.contract.computed_columns:
            value = F.expr(str(column.expression)).cast(column.data_type)
            typed = typed.withColumn(column.name, _or_key(value, key.get(column.name)))
        return typed.select(*_parsed_columns(self, tuple(origin)))


class FileFormat(Format):
    """A format that files may have."""

    # true if files contain a schema, or are one record each: then they are read by name
    by_name: bool = False
    # the column with the file of a record, as a URI
    file_column: str = "_metadata.file_path"

    def stream_files(self, reader: DataStreamReader, folder: str) -> DataFrame:
        """Return the files of a folder as a stream, or only their list if they are read by name."""
        return reader.text(folder).where(has_text(F.col("value")))

    def damaged(self, file: Place) -> bool:
        """Return true if a file is damaged and a check of milliseconds can prove it."""
        return False

    def other_form(self, file: Place) -> str | None:
        """Return the form and the remedy of a file that is not of this format, or None."""
        return None

    @abstractmethod
    def files(
        self, spark: SparkSession, files: Sequence[Place], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """Return the records of some files for `parse`: one frame for each schema.

        `options` are those of the file system.
        """


@cache
def _parsed_columns(format_: Format, origin: Sequence[str]) -> list[Column]:
    """Return the expressions of `parse` over typed columns.

    They are cached, like others: each part of an expression is a call of the JVM. A thousand calls
    took longer than a small batch.
    """
    contract = format_.contract
    problems = _all_problems(format_) or [(F.lit(False), no_problem())]
    any_problem = reduce(Column.__or__, [F.coalesce(when, F.lit(False)) for when, _ in problems])
    first_problem = F.coalesce(*[F.when(when, what) for when, what in problems], no_problem())
    rescued = format_.rescued() if contract.rescues else null()
    return [
        *[F.col(f"`{column.name}`") for column in contract.stored_columns],
        *map(F.col, origin),
        F.col("_raw").cast("binary").alias("_raw"),
        rescued.alias("_rescued"),
        (~any_problem).alias("_good"),
        first_problem.alias("_bad"),
    ]


def _or_key(value: Column, of_key: Column | None) -> Column:
    """Return a value of a record, or of the key if it is a tombstone."""
    return value if of_key is None else F.when(is_tombstone(), of_key).otherwise(value)


def _all_problems(format_: Format) -> list[Problem]:
    """Return the possible problems of a record: of its format, of its years, of its constraints.

    A tombstone has only its key, and a deletion may: constraints of other columns do not apply to
    them. Years do, because bronze also has the values of a deletion.
    """
    contract = format_.contract
    years = [problem for one in format_.of_bronze() for problem in year_problem(one)]
    years += [problem for one in contract.computed_columns for problem in cut_number(one)]
    changes, deletes = contract.stream.changes, format_.is_delete()
    if changes is None:
        broken = [problem for one in contract.columns for problem in broken_constraints(one)]
        return [*format_.problems(), *years, *broken]
    of_row = {column.name for column in format_.of_row()} - set(changes.key)
    problems, of_key = [*format_.problems(), *years], list[Problem]()
    for column in contract.columns:
        broken = broken_constraints(column)
        if (lacks := format_.lacks(column.name)) is not None:
            broken = [(when & ~lacks, what) for when, what in broken]
        if column.name in changes.key:
            of_key += [no_key(column.name), *broken]
        elif deletes is not None and column.name in of_row:
            problems += [(when & ~deletes, what) for when, what in broken]
        else:
            problems += broken
    if accepts_tombstones(contract):
        problems = [(when & ~is_tombstone(), what) for when, what in problems]
    return [*problems, *of_key]


def as_kept(contract: Contract, rows: DataFrame, value: Column) -> DataFrame:
    """Return rows of quarantine as a source would deliver their records."""
    rows = rows.withColumnRenamed("reason", "_reason")
    return rows.select(value.alias("value"), *contract.origin, *KEPT)
