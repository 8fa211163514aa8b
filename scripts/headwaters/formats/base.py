"""What a format is: how its files are read, and what its records become.

A batch is split by `_good`, which is quickly told; `_bad` costs more, and is asked for where
something is bad: null for a good record, else what `problems` says. Everything here only builds
expressions; nothing is read or written, except for the schemas of files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader

import headwaters.contract as declared
from headwaters.contract import Contract
from headwaters.formats.problems import (
    Problem,
    broken_constraints,
    no_problem,
    null,
    year_problem,
)
from headwaters.formats.tombstones import accepts_tombstones, is_tombstone, key_columns, no_key

CORRUPT = "_corrupt"
PLACE = "_place"  # of a record among those of its batch, while it is parsed
# What quarantine knows of a record besides the record and where it came from.
KEPT = ("_batch_id", "_ingested_at", "_reason")


class Format(ABC):
    """One format, with the contract of one stream."""

    def __init__(self, contract: Contract) -> None:
        """The format of a contract."""
        self.contract = contract

    def of_message(self, value: Column) -> Column:
        """The record in a message of Kafka."""
        return value

    @abstractmethod
    def typed(self, raw: DataFrame, origin: Sequence[str]) -> DataFrame:
        """Records with the columns that are read, in their types, `_raw`, and its own marks.

        A value that does not fit its type is null.
        """

    @abstractmethod
    def problems(self) -> list[Problem]:
        """What may be wrong with a typed record, in order; declared constraints come after it."""

    def of_row(self) -> tuple[declared.Column, ...]:
        """The columns that are read from a record of a row."""
        return self.contract.read_columns

    def of_bronze(self) -> tuple[declared.Column, ...]:
        """Return the columns that bronze has of a record."""
        return self.contract.columns

    def rescued(self) -> Column:
        """The fields of a typed record that are not declared, as JSON, or null."""
        return null()

    def lacks(self, name: str) -> Column | None:
        """Whether a record lacks the value of a column that its row has; None if none may."""
        return None

    def is_delete(self) -> Column | None:
        """Whether a record deletes a row, and may have no more of it than its key; or None."""
        return None

    @abstractmethod
    def parse_again(self, rows: DataFrame) -> DataFrame:
        """As `parse`, for rows of quarantine; the columns of `KEPT` are kept."""

    def parse(self, raw: DataFrame, kept: Sequence[str] = ()) -> DataFrame:
        """Columns of the contract, `_good`, `_bad`, `_raw` and `_rescued` for each record.

        `raw` is what `files` or a source delivers, with the lineage of the source and what is to be
        `kept`.
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

    # whether files bring a schema along, or are a record each: they are read by name then
    by_name: ClassVar[bool] = False

    def stream_files(self, reader: DataStreamReader, folder: str) -> DataFrame:
        """The files of a folder as a stream; of those that are read by name, only their list."""
        return reader.text(folder).where(F.trim("value") != "")

    def damaged(self, file: str) -> bool:
        """Whether a file cannot be read, where that is told in milliseconds; else False."""
        return False

    def other_form(self, file: Path) -> str | None:
        """Return the form and the remedy of a file that is not of this format, or None."""
        return None

    @abstractmethod
    def files(
        self, spark: SparkSession, paths: Sequence[str], options: Mapping[str, str]
    ) -> list[DataFrame]:
        """The records of some files, as `parse` takes them: one frame for each schema.

        `options` are those of the file system.
        """


@cache
def _parsed_columns(format_: Format, origin: Sequence[str]) -> list[Column]:
    """What `parse` gives, of typed columns.

    Kept, as are others: each part of an expression is a call of the JVM, a thousand in all, which
    took longer than a small batch.
    """
    contract = format_.contract
    problems = _all_problems(format_) or [(F.lit(False), no_problem())]
    any_problem = reduce(Column.__or__, [F.coalesce(when, F.lit(False)) for when, _ in problems])
    first_problem = F.coalesce(*[F.when(when, what) for when, what in problems], no_problem())
    rescued = format_.rescued() if contract.rescues else null()
    return [
        *[F.col(f"`{column.name}`") for column in contract.columns],
        *map(F.col, origin),
        F.col("_raw").cast("binary").alias("_raw"),
        rescued.alias("_rescued"),
        (~any_problem).alias("_good"),
        first_problem.alias("_bad"),
    ]


def _or_key(value: Column, of_key: Column | None) -> Column:
    """A value of a record, or of the key of a tombstone."""
    return value if of_key is None else F.when(is_tombstone(), of_key).otherwise(value)


def _all_problems(format_: Format) -> list[Problem]:
    """What may be wrong with a record: of its format, of its years, then of its constraints.

    A tombstone has no more than its key, nor may a deletion: constraints of other columns do not
    hold for it. Years do, since bronze has the values of a deletion as well.
    """
    contract = format_.contract
    years = [problem for one in format_.of_bronze() for problem in year_problem(one)]
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
    """Rows of quarantine as a source would deliver their records."""
    rows = rows.withColumnRenamed("reason", "_reason")
    return rows.select(value.alias("value"), *contract.origin, *KEPT)
