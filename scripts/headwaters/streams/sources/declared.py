"""The sources as contracts declare them. Pure, so that dbt reads it without Spark.

`sources/registry.py` has the class of each source, which reads its records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from headwaters.platform.fields import Duration, Part, Size, one_of
from headwaters.platform.kafka_settings import Settings, client_problem
from headwaters.platform.names import not_allowed
from headwaters.streams.formats.declared import Carrier


class BatchLimits(Part):
    """The maximum size of one micro-batch."""

    max_files: int | None = Field(default=None, gt=0)
    max_bytes: Size | None = None
    max_records: int | None = Field(default=None, gt=0)
    min_records: int | None = Field(default=None, gt=0)
    max_delay: Duration | None = None

    @property
    def of_files(self) -> dict[str, str]:
        """Return the limits as options of Spark for files and Delta tables."""
        limits = {"maxFilesPerTrigger": self.max_files, "maxBytesPerTrigger": self.max_bytes}
        return {option: str(limit) for option, limit in limits.items() if limit}


class StartAt(Part):
    """A starting point between the beginning and the end of the source."""

    offsets: dict[str, dict[int, int]] | None = None
    version: int | None = Field(default=None, ge=0)
    timestamp: datetime | None = None

    @model_validator(mode="after")
    def _just_one(self) -> StartAt:
        if len(self.model_dump(exclude_none=True)) != 1:
            raise ValueError("name one of offsets, version, timestamp")
        return self

    @property
    def kind(self) -> str:
        """Return the unit of the starting point."""
        return next(iter(self.model_dump(exclude_none=True)))


@dataclass(frozen=True)
class DeclaredSource:
    """A kind of source: its lineage columns, and its rules for a contract."""

    name: str
    starts: tuple[str, ...] = ("earliest",)
    # the columns that describe the origin of a record
    origin: tuple[tuple[str, str], ...] = ()
    # those of them that belong to the record's content, not to its place
    contents: tuple[str, ...] = ()
    # the carrier that has a format; other sources deliver rows of typed columns
    delivers: Carrier | None = None
    # the keys for access to the source, which a later contract may correct
    reached_by: tuple[str, ...] = ()
    # it reads the Delta table at `path`
    reads_table: bool = False
    # the target of the HTTP endpoint, if it may write into this source
    http_target: Literal["topics", "table"] | None = None

    @property
    def place(self) -> tuple[str, ...]:
        """Return the columns that identify the place of a record."""
        return tuple(name for name, _ in self.origin if name not in self.contents)

    def unread_problem(self, keys: Mapping[str, Any]) -> str | None:
        """Return the problem of a key that must not be read, such as a secret, or None."""
        return None

    def keys_problem(self, keys: SourceKeys, batch: BatchLimits) -> str | None:
        """Return the problem of a stream's keys for this source, or None."""
        return None

    def columns_problem(self, names: Sequence[str]) -> str | None:
        """Return the problem of the columns to read, or None."""
        return None


class _Files(DeclaredSource):
    def keys_problem(self, keys: SourceKeys, batch: BatchLimits) -> str | None:
        if keys.path is None:
            return "path is missing: the folder, relative to the lake"
        if batch.max_files and batch.max_bytes:
            return "batch: files are counted by max_files or by max_bytes, not by both: choose one"
        return None


class _Kafka(DeclaredSource):
    def unread_problem(self, keys: Mapping[str, Any]) -> str | None:
        problem = client_problem(keys.get("client"))
        return problem and f"client: {problem}"

    def keys_problem(self, keys: SourceKeys, batch: BatchLimits) -> str | None:
        return None if keys.topics else "topics is missing: the topics to read, as a list"


class _Delta(DeclaredSource):
    def keys_problem(self, keys: SourceKeys, batch: BatchLimits) -> str | None:
        missing = "path is missing: the Delta table, relative to the lake"
        return missing if keys.path is None else None


class _Rate(DeclaredSource):
    def columns_problem(self, names: Sequence[str]) -> str | None:
        known = ("timestamp", "value")
        for name in names:
            if name not in known:
                return f"column {name}: {not_allowed(name, known, 'a column of rate')}"
        return None


SOURCES: Mapping[str, DeclaredSource] = {
    declared.name: declared
    for declared in (
        _Files(
            "files",
            starts=("earliest", "latest"),
            origin=(("_source_file", "string"),),
            delivers="files",
        ),
        _Kafka(
            "kafka",
            starts=("earliest", "latest", "offsets", "timestamp"),
            origin=(
                ("_topic", "string"),
                ("_partition", "int"),
                ("_offset", "bigint"),
                ("_timestamp", "timestamp"),
                ("_key", "binary"),
                ("_headers", "array<struct<key:string,value:binary>>"),
            ),
            contents=("_timestamp", "_key", "_headers"),
            delivers="messages",
            reached_by=("servers", "client", "data_loss"),
            http_target="topics",
        ),
        # its rows have no lineage
        _Delta(
            "delta",
            starts=("earliest", "latest", "version", "timestamp"),
            reads_table=True,
            http_target="table",
        ),
        _Delta(
            "delta_changes",
            starts=("earliest", "latest", "version", "timestamp"),
            origin=(
                ("_source_change", "string"),
                ("_source_version", "bigint"),
                ("_source_timestamp", "timestamp"),
            ),
            reads_table=True,
        ),
        _Rate("rate", origin=(("_offset", "bigint"),)),
    )
}


class SourceKeys(Part):
    """The keys of `config.meta.stream` that describe the source.

    Each source has its own keys. Keys of other sources may stay declared: `from` selects the
    source.
    """

    source: Annotated[str, one_of(SOURCES)] = Field(alias="from")
    path: str | None = None  # of files and Delta tables
    topics: tuple[str, ...] = ()  # of Kafka, as the next two
    servers: str | None = None
    client: Settings = Field(default_factory=dict)
    start: Literal["earliest", "latest"] | StartAt = "earliest"
    data_loss: Literal["fail", "skip"] = "fail"  # of Kafka
    on_change: Literal["fail", "skip", "ignore"] = "fail"  # of Delta tables
    rows_per_second: int = Field(default=1, gt=0)  # of rate
