"""Delta tables as sources: the rows added to them, or their change feed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.checkpoint import Pending
from headwaters.platform.errors import WorkError
from headwaters.streams.sources.base import (
    Balance,
    Compare,
    Moment,
    Source,
    beside_lineage,
    nothing_at,
    stored,
    table_at,
    utc,
)
from headwaters.streams.sources.declared import StartAt
from headwaters.streams.stream import From
from headwaters.tables.commits import commits_of, layouts
from headwaters.tables.delta_log import appended, snapshot


@dataclass(frozen=True)
class Delta(Source):
    """The rows that a Delta table gains."""

    keeps_latest = True

    @property
    def _remote(self) -> bool:
        return "://" in str(self.stream.contract.stream.path)

    @property
    def table(self) -> str:
        """Return the path of the table, or its URI."""
        path = self.stream.contract.stream.path
        return str(path) if self._remote else str(self.stream.path)

    def backlog(self) -> Pending | None:
        """Return the unread files of commits, or None for a table that is not local."""
        if self._remote:
            return None
        stream, checkpoint = self.stream, self.stream.checkpoint
        found = snapshot(stream.path)
        if found is None:
            raise nothing_at(stream, "Delta table", "write it first")
        position, begun = checkpoint.delta_position(), checkpoint.begun().get("version")
        if position is None and begun is not None:
            position = begun + 1, True
        since = 0 if position is None else position[0]
        all_ = (found.files, found.bytes)
        number, size = all_ if position is None else appended(stream.path, since)
        # commits without new files (deletes) count as unread, too
        unread = since <= found.version
        return Pending(number or int(unread), "files", size, checkpoint.unfinished)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the table's rows since the checkpoint's start."""
        stream = self.stream
        options = self.contract.stream.batch.of_files
        begun = stream.checkpoint.begun().get("version")
        if begun is not None:
            options["startingVersion"] = str(begun + 1)
        elif stream.start == "latest":
            # older checkpoints do not store their start
            options["startingVersion"] = "latest"
        elif isinstance(stream.start, StartAt) and stream.start.version is not None:
            options["startingVersion"] = str(stream.start.version)
        elif isinstance(stream.start, StartAt):
            options["startingTimestamp"] = f"{utc(stream.start):%Y-%m-%d %H:%M:%S.%f}"
        options |= self._mode()
        path = self.table
        raw = spark.readStream.format("delta").options(**options).load(path)
        return self._with_lineage(beside_lineage(raw, self.contract))

    def _mode(self) -> dict[str, str]:
        if self.contract.stream.on_change == "fail":
            return {}
        names = {"skip": "skipChangeCommits", "ignore": "ignoreChanges"}
        return {names[self.contract.stream.on_change]: "true"}

    def _with_lineage(self, raw: DataFrame) -> DataFrame:
        return raw

    def has_begun(self, spark: SparkSession) -> bool:
        """Return true if the table has its first version: Delta cannot start at a future one."""
        begun: int | None = self.stream.checkpoint.begun().get("version")
        if begun is None or self.stream.checkpoint.planned >= 0:
            return True
        return self._latest_version(spark) > begun

    def _latest_version(self, spark: SparkSession) -> int:
        newest = spark.sql(f"describe history delta.`{self.table}` limit 1").first()
        assert newest
        return int(newest["version"])

    def position(self) -> str:
        """Return the version that was read last."""
        position = self.stream.checkpoint.delta_position()
        assert position
        return f"version {position[0] - 1}" if position[1] else f"part of version {position[0]}"

    def place(self, row: Row) -> str:
        """Return the table: its rows do not contain their version."""
        return self.contract.stream.path or self.contract.stream.source

    def resume_note(self, spark: SparkSession, begin: From) -> dict[str, Any]:
        """Return the version after which reading begins."""
        if begin == "latest":
            return {"version": self._latest_version(spark)}
        return super().resume_note(spark, begin)

    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """Return the balance of all rows that the source had gained, without their versions.

        Raises WorkError if rows were changed or deleted since, because the rows that were read are
        then lost.
        """
        end, source = self._first_unread(now) - 1, self.table
        history = spark.sql(f"describe history delta.`{source}`").where(f"version <= {end}")
        changed = history.where("operation in ('UPDATE', 'DELETE', 'MERGE', 'RESTORE')").limit(1)
        if self.stream.start != "earliest" or changed.count():
            raise WorkError(
                "HW_RECONCILIATION",
                f"{self.stream.contract.name}: the stream cannot be reconciled: {source} was "
                "changed beyond appends, or was not read from its beginning",
            )
        read = beside_lineage(table_at(spark, source, end), self.contract)
        return compare([read], F.lit(source))

    def _first_unread(self, now: Moment) -> int:
        """Return the first version that was not read.

        Raises WorkError if a version was read only partly, because batches are small.
        """
        found = self.stream.checkpoint.delta_position(now.committed)
        if found is None or not found[1]:
            raise WorkError(
                "HW_RECONCILIATION",
                f"{self.stream.contract.name}: a version of its source was read only in part: run "
                "headwaters ingest until nothing is left",
            )
        return found[0]


@dataclass(frozen=True)
class DeltaChanges(Delta):
    """The change feed of a Delta table."""

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the changes since the checkpoint's start.

        Raise WorkError if the table's partition columns changed since: Delta would return NULL for
        values of deleted or updated rows.
        """
        since = self._first_to_read()
        if since is not None:
            history = commits_of(spark.sql(f"describe history delta.`{self.table}`").collect())
            known = layouts(history)
            newest = history[0].version
            if any(known[v] != known[newest] for v in known if since - 1 <= v <= newest):
                raise WorkError(
                    "HW_SOURCE_REPARTITIONED",
                    f"{self.stream.contract.name}: {self.table} was partitioned by other columns "
                    f"after version {since - 1}, so its change feed gives NULL for values of older "
                    f"rows. Remove {self.stream.checkpoint.path} and resume with "
                    f"headwaters ingest --select {self.stream.contract.name} --from earliest (the "
                    "whole table, added to the rows of bronze) or --from latest",
                )
        return super().read(spark)

    def _first_to_read(self) -> int | None:
        """Return the first version with changes to read, or None to read the table's rows first."""
        position = self.stream.checkpoint.delta_position()
        if position is not None:
            return position[0]
        begun: int | None = self.stream.checkpoint.begun().get("version")
        if begun is not None:
            return begun + 1
        start = self.stream.start
        return start.version if isinstance(start, StartAt) else None

    def _mode(self) -> dict[str, str]:
        return {"readChangeFeed": "true"}

    def _with_lineage(self, raw: DataFrame) -> DataFrame:
        """Return rows of a change feed, with the feed's columns as lineage."""
        feed = ("_change_type", "_commit_version", "_commit_timestamp")
        kept = [F.col(f"`{name}`") for name in raw.columns if name not in feed]
        lineage = zip(feed, self.contract.origin, strict=True)
        return raw.select(*kept, *[F.col(name).alias(ours) for name, ours in lineage])

    def balance(self, spark: SparkSession, now: Moment, compare: Compare) -> list[Balance]:
        """Return the balance of each version; the first may be the whole table at that version."""
        end, source, contract = self._first_unread(now) - 1, self.table, self.contract
        unit = F.concat(F.lit("version "), F.col("_source_version"))
        rows = stored(spark, self.stream, now, ["_source_version", "_source_timestamp"])
        first = rows.orderBy("_source_version").first()
        since = end + 1 if first is None else first["_source_version"]
        frames = []
        if self.stream.start == "earliest" and first is not None:
            whole = beside_lineage(table_at(spark, source, since), contract)
            origin = {
                "_source_change": F.lit("insert"),
                "_source_version": F.lit(since).cast("bigint"),
                "_source_timestamp": F.lit(first["_source_timestamp"]),
            }
            frames.append(whole.withColumns(origin))
            since += 1
        if since <= end:
            feed = {"readChangeFeed": "true", "startingVersion": since, "endingVersion": end}
            changes = spark.read.format("delta").options(**feed).load(source)
            frames.append(self._with_lineage(beside_lineage(changes, contract)))
        return compare(frames, unit)
