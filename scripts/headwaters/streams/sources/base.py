"""The protocol of a source: its backlog, Spark's reader, and the proof of its records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.checkpoint import REPLAYS, Pending
from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.places import Place
from headwaters.streams.contract import Contract
from headwaters.streams.formats.base import PLACE, Format
from headwaters.streams.sources.declared import StartAt
from headwaters.streams.stream import From, Stream
from headwaters.tables.delta_tables import TableSnapshot


class SourceReplaced(WorkError):
    """A topic or a table was recreated or restored: its positions mean other records."""


@dataclass(frozen=True)
class Balance:
    """The counts of one partition of a topic, of one file, or of one version.

    `missing` counts records that are in neither table. `extra` counts rows that the source lacks or
    has less often. Rows without a remaining source are `unproven`.
    """

    unit: str
    read: int
    bronze: int
    quarantine: int
    missing: int
    extra: int
    unproven: int = 0
    beside: tuple[str, ...] = ()  # columns declared later, which are not compared

    @property
    def right(self) -> bool:
        """Return true if every record is in exactly one of the two tables, once."""
        return not self.missing and not self.extra


@dataclass(frozen=True)
class Moment:
    """A stream's committed position, and the versions of its tables that match it exactly."""

    committed: int
    bronze: int
    quarantine: int


# Compare records, in frames that the format accepts, with the rows of both tables, by a unit.
Compare = Callable[[Sequence[DataFrame], Column], list[Balance]]


@dataclass(frozen=True)
class Source(ABC):
    """The source of one stream, by its present contract, or by that of an interrupted batch."""

    stream: Stream
    contract: Contract
    format: Format

    # true if Spark does not store a `latest` start, or has no such start: then the checkpoint does
    keeps_latest: ClassVar[bool] = False
    # true if a source can be deleted and recreated under the same name
    recreatable: ClassVar[bool] = False

    @abstractmethod
    def backlog(self) -> Pending | None:
        """Return the stream's unread part from its checkpoint and its source, without Spark.

        The result is None if the source has no end, or only Spark can reach it. Raises UserError
        for a missing folder or table, WorkError for a broker or topic.
        """

    @abstractmethod
    def read(self, spark: SparkSession) -> DataFrame:
        """Return the source as a streaming DataFrame; `records` converts its batches."""

    @abstractmethod
    def position(self) -> str:
        """Return the position after the last batch in the checkpoint."""

    @abstractmethod
    def place(self, row: Row) -> str:
        """Return the place of a record, for a person."""

    @abstractmethod
    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """Return the balances: each record that was read must be in one of the two tables, once.

        Raises WorkError if this is impossible to determine.
        """

    def describe(self) -> str:
        """Describe the source in a few words."""
        declared = self.contract.stream
        return f"{declared.source} {declared.path or ''}".strip()

    def records(
        self, spark: SparkSession, batch: DataFrame, number: int, without: Collection[str] = ()
    ) -> list[DataFrame]:
        """Return the records of a batch for the format: one frame for each schema."""
        return [batch]

    def has_begun(self, spark: SparkSession) -> bool:
        """Return true if the source has a position at which reading can begin."""
        return True

    def check_identity(self) -> None:  # noqa: B027 - most sources have none
        """Raise SourceReplaced if the source has been recreated since it was read."""

    def keep_identity(self) -> None:  # noqa: B027 - most sources have none
        """Store the source's identity. Raises SourceReplaced like `check_identity`."""

    def gone(self, number: int) -> dict[str, str]:
        """Return the files of a batch that were removed before the read, as URIs, with a reason."""
        return {}

    def stamps(self, number: int) -> dict[str, tuple[int, int]]:
        """Return the time of the last change and the size of each file of a batch, by its URI."""
        return {}

    def other_forms(self, number: int) -> dict[str, str]:
        """Return the files of a batch that have another format, as URIs, with that format."""
        return {}

    def unreadable(
        self, spark: SparkSession, number: int, known: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the files of a batch that Spark cannot read, as URIs, with the reason."""
        return {}

    def resume_note(self, spark: SparkSession, begin: From) -> dict[str, Any]:
        """Return the facts that a start with `--from` needs and Spark does not store.

        Raises UserError for `table` if rows do not contain their position in the source.
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
        """Store new positions: the beginning of what was recreated, the old ones of the rest."""

    def without_stored(self, spark: SparkSession, parsed: DataFrame, number: int) -> DataFrame:
        """Remove records of a parsed batch that the tables had when the new checkpoint began."""
        return parsed


def beside_lineage(frame: DataFrame, contract: Contract) -> DataFrame:
    """Return a source's own columns. If one has a name of the lineage, it gets another `_`."""
    taken = {*contract.origin, PLACE}
    return frame.withColumnsRenamed({n: f"{n}_" for n in frame.columns if n.lower() in taken})


def nothing_at(stream: Stream, what: str, todo: str) -> UserError:
    """Return the error for a missing folder or table."""
    contract = stream.contract
    return UserError(
        "HW_NO_INPUT",
        f"{contract.file}: {contract.name} reads {contract.stream.path}, but there is no {what} "
        f"{stream.path}: {todo}, or change 'path'",
    )


def utc(start: StartAt) -> datetime:
    """Return the moment of a start, in UTC unless it has an offset."""
    assert start.timestamp
    return start.timestamp if start.timestamp.tzinfo else start.timestamp.replace(tzinfo=UTC)


def table_at(spark: SparkSession, path: Place | str, at: int) -> DataFrame:
    """Return a Delta table at a version."""
    return spark.read.format("delta").option("versionAsOf", at).load(str(path))


def stored(spark: SparkSession, stream: Stream, now: Moment, keys: Sequence[str]) -> DataFrame:
    """Return the keys of both tables' rows, with `_bronze` 1 or 0."""
    bronze = TableSnapshot(spark, stream.bronze).at(now.bronze)
    quarantine = TableSnapshot(spark, stream.quarantine).at(now.quarantine)
    return bronze.select(*keys, F.lit(1).alias("_bronze")).union(
        quarantine.select(*keys, F.lit(0).alias("_bronze"))
    )


def both_tables(spark: SparkSession, stream: Stream, *columns: str) -> tuple[DataFrame, DataFrame]:
    """Return columns of the newest versions of bronze and of quarantine."""
    bronze, quarantine = (
        TableSnapshot(spark, table).now().select(*columns)
        for table in (stream.bronze, stream.quarantine)
    )
    return bronze, quarantine


def last_batches(spark: SparkSession, stream: Stream) -> list[int]:
    """Return the last batch number in bronze of each checkpoint, since clocks may go back."""
    batches = TableSnapshot(spark, stream.bronze).batches.items()
    return sorted({n for app, n in batches if not app.endswith(REPLAYS)})
