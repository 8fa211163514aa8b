"""Delta tables as sources: the rows added to them, or their change feed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.checkpoint import SOURCE_SCHEMAS, Pending
from headwaters.platform.errors import WorkError
from headwaters.platform.json_lines import lines
from headwaters.platform.places import Place
from headwaters.streams.sources.base import (
    Balance,
    Compare,
    Moment,
    Source,
    SourceReplaced,
    beside_lineage,
    nothing_at,
    stored,
    table_at,
    utc,
)
from headwaters.streams.sources.declared import StartAt
from headwaters.streams.stream import From
from headwaters.tables.commits import commits_of, partitionings
from headwaters.tables.delta_log import appended, commit_files, snapshot, table_id

_NAMED = 1000  # commits whose identity a checkpoint has
# Columns that are renamed, dropped or widened are followed without a word of the user.
_FOLLOWED = dict.fromkeys(
    ("allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange"), "always"
)


@dataclass(frozen=True)
class Delta(Source):
    """The rows that a Delta table gains."""

    keeps_latest = True
    recreatable = True

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
        if stream.begin != "recreated":
            self._check_versions()
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
        options |= self._mode() | _FOLLOWED
        options["schemaTrackingLocation"] = str(self._schemas)
        path = self.table
        raw = spark.readStream.format("delta").options(**options).load(path)
        return self._with_lineage(beside_lineage(self._by_former_names(raw), self.contract))

    @property
    def _schemas(self) -> Place:
        """Return the folder where Delta stores the table's columns, one file for each change."""
        return self.stream.checkpoint.path / SOURCE_SCHEMAS

    def _by_former_names(self, rows: DataFrame) -> DataFrame:
        """Return rows with the declared names of columns that were renamed in the table since."""
        fields = {column.field.lower() for column in self.contract.read_columns}
        missing = fields - {name.lower() for name in rows.columns}
        if not missing:
            return rows
        former = former_names(self._schemas)
        found = {
            name: next((old for old in former.get(name, ()) if old.lower() in missing), name)
            for name in rows.columns
            if name.lower() not in fields
        }
        return rows.withColumnsRenamed(found)

    def check_identity(self) -> None:
        """Raise SourceReplaced if the table was recreated, or put back from a copy.

        Store the identities of the commits that the planned batch has read.
        """
        if not self._remote:
            self._check_versions()
            self._keep_versions()

    def _check_versions(self) -> None:
        """Raise SourceReplaced if a commit that was read is another one now, or is gone.

        `create or replace table` keeps the commits and gives the table a new identity. Delta then
        ends a stream.
        """
        read = self._first_after(self.stream.checkpoint.committed) - 1
        commits, known = commit_files(self.stream.path), self._known_versions()
        newest = max((version for version in known if version in commits), default=None)
        lost = max(commits, default=-1) < max([read, *known])
        differs = newest is not None and _identity(commits[newest]) != known[newest]
        if lost or differs or self._is_replaced():
            name = self.stream.contract.name
            raise SourceReplaced(
                "HW_SOURCE_RECREATED",
                f"the Delta table {self.table} was created again or put back from a copy since "
                f"{name} last read it, so its versions are others: run headwaters ingest --select "
                f"{name} --from recreated, which reads it after the last version that both have, "
                "or a new table from its beginning",
            )

    def _is_replaced(self) -> bool:
        """Return whether the table has another identity than the one that was read."""
        read = self.stream.checkpoint.versions().get("table")
        return read is not None and read != table_id(self.stream.path)

    def _first_after(self, batch: int) -> int:
        """Return the version after those that were read as a whole by the end of a batch."""
        position = self.stream.checkpoint.delta_position(batch)
        return 0 if position is None else position[0]

    def _known_versions(self) -> dict[int, str]:
        commits = self.stream.checkpoint.versions().get("commits", {})
        return {int(version): identity for version, identity in commits.items()}

    def _keep_versions(self) -> None:
        known, path = self._known_versions(), self.stream.path
        after = self._first_after(self.stream.checkpoint.planned)
        first = max([after - _NAMED, *(version + 1 for version in known)])
        new = {
            version: _identity(file)
            for version, file in sorted(commit_files(path).items())
            if first <= version < after
        }
        if new:
            kept = dict(list((known | new).items())[-_NAMED:])
            note = {"table": table_id(path), "commits": kept}
            self.stream.checkpoint.keep_versions(note)

    def decide_recreated(self, spark: SparkSession) -> None:
        """Store the last version that the table has in common with the one that was read.

        Raises WorkError if no commit of the same table is known.
        """
        checkpoint, path = self.stream.checkpoint, self.stream.path
        try:
            if not self._remote:
                self._check_versions()
            return
        except SourceReplaced:
            commits, known = commit_files(path), self._known_versions()
        same = [v for v, file in commits.items() if known.get(v) == _identity(file)]
        note: dict[str, Any] = {"from": "recreated", "replaces": checkpoint.id}
        if same:
            note["version"] = max(same)
        elif checkpoint.versions().get("table") in (None, table_id(path)):
            raise WorkError(
                "HW_RESUME",
                f"{self.stream.contract.name}: no version of {self.table} is known that was read: "
                f"remove {checkpoint.path} and choose --from latest (with what comes from now on) "
                "or --from earliest (the whole table again)",
            )
        else:
            note["from"] = "earliest"
        checkpoint.keep_begun(note)

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
        others = "'UPDATE', 'DELETE', 'MERGE', 'RESTORE', 'DROP COLUMNS'"
        changed = history.where(f"operation in ({others})").limit(1)
        again = "replaces" in self.stream.checkpoint.begun()
        if self.stream.start != "earliest" or again or changed.count():
            raise WorkError(
                "HW_RECONCILIATION",
                f"{self.stream.contract.name}: the stream cannot be reconciled: {source} was "
                "changed beyond appends, or was not read from its beginning",
            )
        read = self._by_former_names(table_at(spark, source, end))
        read = beside_lineage(read, self.contract)
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
            known = partitionings(history)
            # a commit that moves columns has no token, so the one before it counts
            first = max((v for v in known if v < since), default=0)
            if len({known[v] for v in known if v >= first}) > 1:
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


def former_names(log: Place) -> dict[str, list[str]]:
    """Return the earlier names of each column in Delta's log of schemas, newest first.

    A column keeps its physical name when it is renamed. A table without column mapping has none.
    """
    entries = [file for file in log.glob("*/*") if file.name.isdigit()]
    names: dict[str, list[str]] = {}
    for file in sorted(entries, key=lambda file: int(file.name)):
        for column in json.loads(json.loads(lines(file)[1])["dataSchemaJson"])["fields"]:
            physical = column["metadata"].get("delta.columnMapping.physicalName", column["name"])
            known = names.setdefault(physical, [])
            if column["name"] in known:
                known.remove(column["name"])
            known.insert(0, column["name"])
    return {newest: older for newest, *older in names.values()}


def _identity(commit: Place) -> str:
    """Return the identity of a commit: its contents never change."""
    return hashlib.sha256(commit.read_bytes()).hexdigest()[:16]
