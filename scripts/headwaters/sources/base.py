"""What a source is: what is there to read, how Spark reads it, and how its records are proven."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.checkpoint import Pending
from headwaters.contract import Contract
from headwaters.errors import UserError, WorkError
from headwaters.formats.base import PLACE, Format
from headwaters.sources.declared import StartAt
from headwaters.stream import From, Stream
from headwaters.tables import Table


class TopicRecreated(WorkError):
    """A topic is not the one that was read so far: its offsets are other records."""


@dataclass(frozen=True)
class Balance:
    """The account of one partition of a topic, of one file, or of one version.

    `missing` counts records that are in neither table, `extra` rows that the source does not have,
    or has less often. Rows whose source is gone are `unproven`.
    """

    unit: str
    read: int
    bronze: int
    quarantine: int
    missing: int
    extra: int
    unproven: int = 0
    beside: tuple[str, ...] = ()  # columns that are not compared, since they were declared later

    @property
    def right(self) -> bool:
        """Whether every record is in exactly one of the two tables, once."""
        return not self.missing and not self.extra


@dataclass(frozen=True)
class Moment:
    """What a stream had committed, and the versions of its tables that hold just that."""

    committed: int
    bronze: int
    quarantine: int


# Compares records, in frames that the format takes, with the rows that the tables have, by a unit.
Compare = Callable[[Sequence[DataFrame], Column], list[Balance]]


@dataclass(frozen=True)
class Source(ABC):
    """The source of one stream, by one contract: its own, or the one that a batch began with."""

    stream: Stream
    contract: Contract
    format: Format

    # whether Spark keeps no end that it began at, or knows no such start: it is written down then
    keeps_latest: ClassVar[bool] = False
    # whether what is read can be deleted and made again under its name
    recreatable: ClassVar[bool] = False

    @abstractmethod
    def backlog(self) -> Pending | None:
        """What the stream has not yet read, from its checkpoint and its source; costs no Spark.

        None where it has no end, or only Spark can reach it. Raises UserError for a folder or table
        that is not there, WorkError for a broker or topic.
        """

    @abstractmethod
    def read(self, spark: SparkSession) -> DataFrame:
        """The source as a streaming DataFrame; `records` says what a batch of it holds."""

    @abstractmethod
    def position(self) -> str:
        """Up to where it was read: what the last batch left in the checkpoint."""

    @abstractmethod
    def place(self, row: Row) -> str:
        """Where a record of it is, for a person."""

    @abstractmethod
    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """The account of what was read: each record is in one of the two tables, once.

        Raises WorkError where that cannot be told.
        """

    def describe(self) -> str:
        """What is read, in a few words."""
        declared = self.contract.stream
        return f"{declared.source} {declared.path or ''}".strip()

    def records(
        self, spark: SparkSession, batch: DataFrame, number: int, without: Collection[str] = ()
    ) -> list[DataFrame]:
        """The records of a batch, in the form that the format takes: one frame for each schema."""
        return [batch]

    def has_begun(self, spark: SparkSession) -> bool:
        """Whether there is something that reading can begin at."""
        return True

    def check_identity(self) -> None:  # noqa: B027 - most sources have none
        """Raise TopicRecreated where what is read is not what was read so far."""

    def keep_identity(self) -> None:  # noqa: B027 - most sources have none
        """Write down what is read. Raises TopicRecreated as `check_identity` does."""

    def gone(self, number: int) -> dict[str, str]:
        """The files of a batch that were removed before it was read, as URIs, and that."""
        return {}

    def other_forms(self, number: int) -> dict[str, str]:
        """The files of a batch that are not of the declared format, as URIs, and what they are."""
        return {}

    def unreadable(
        self, spark: SparkSession, number: int, known: Mapping[str, str]
    ) -> dict[str, str]:
        """The files of a batch that Spark cannot read, as URIs, and why."""
        return {}

    def resume_note(self, spark: SparkSession, begin: From) -> dict[str, Any]:
        """What has to be known to begin where `--from` says, and Spark does not keep.

        Raises UserError for `table` where rows do not say what their place in the source was.
        """
        if begin == "table":
            source = self.contract.stream.source
            raise UserError(
                "HW_RESUME",
                f"{self.stream.contract.name}: --from table needs rows that know their offset or "
                f"file, and {source} has neither: choose --from earliest or latest, or declare a "
                "start",
            )
        return {}

    def decide_recreated(self, spark: SparkSession) -> None:  # noqa: B027 - of most nothing is
        """Write down where reading begins of what was recreated, and resumes of the rest."""

    def without_stored(self, spark: SparkSession, parsed: DataFrame, number: int) -> DataFrame:
        """A parsed batch without what the tables held when the new checkpoint was begun."""
        return parsed


def beside_lineage(frame: DataFrame, contract: Contract) -> DataFrame:
    """A source's own columns; one that is called like a column of the lineage gets a `_` more."""
    taken = {*contract.origin, PLACE}
    return frame.withColumnsRenamed({n: f"{n}_" for n in frame.columns if n.lower() in taken})


def nothing_at(stream: Stream, what: str, todo: str) -> UserError:
    """There is no such folder or table."""
    contract = stream.contract
    return UserError(
        "HW_NO_INPUT",
        f"{contract.file}: {contract.name} reads {contract.stream.path}, but there is no {what} "
        f"{stream.path}: {todo}, or change 'path'",
    )


def utc(start: StartAt) -> datetime:
    """The moment of a start, which is UTC where it says nothing else."""
    assert start.timestamp
    return start.timestamp if start.timestamp.tzinfo else start.timestamp.replace(tzinfo=UTC)


def table_at(spark: SparkSession, path: Path | str, at: int) -> DataFrame:
    """A Delta table as it was at a version."""
    return spark.read.format("delta").option("versionAsOf", at).load(str(path))


def stored(spark: SparkSession, stream: Stream, now: Moment, keys: Sequence[str]) -> DataFrame:
    """The keys of both tables' rows, with `_bronze` 1 or 0."""
    bronze = Table(spark, stream.bronze).at(now.bronze)
    quarantine = Table(spark, stream.quarantine).at(now.quarantine)
    return bronze.select(*keys, F.lit(1).alias("_bronze")).union(
        quarantine.select(*keys, F.lit(0).alias("_bronze"))
    )


def both_tables(spark: SparkSession, stream: Stream, *columns: str) -> tuple[DataFrame, DataFrame]:
    """Columns of bronze and of quarantine, as they are now."""
    bronze, quarantine = (
        Table(spark, table).now().select(*columns) for table in (stream.bronze, stream.quarantine)
    )
    return bronze, quarantine


def last_batches(spark: SparkSession, stream: Stream) -> list[int]:
    """The number of the last batch of each checkpoint that wrote bronze: clocks may go back."""
    batches = Table(spark, stream.bronze).batches.items()
    return sorted({n for app, n in batches if not app.endswith(":replay")})
