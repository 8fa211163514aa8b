"""The writer of a stream's batches into its two tables.

Each write carries the checkpoint's identity and the batch's number (`txnAppId`, `txnVersion`). A
batch that is repeated after a crash therefore does not change its earlier writes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import DataFrame, Observation, SparkSession

from headwaters.platform.errors import CodedError, WorkError
from headwaters.streams.contract import Contract, new_columns
from headwaters.streams.formats.base import PLACE
from headwaters.streams.formats.registry import format_of
from headwaters.streams.ingestion.duplicates import mark_repeated, newest_event
from headwaters.streams.ingestion.inputs import source_of
from headwaters.streams.ingestion.split import (
    among,
    bad_rows,
    good_rows,
    unknown_fields,
    unreadable_rows,
    with_place,
)
from headwaters.streams.ingestion.stopping import StopAsked, Stopping
from headwaters.streams.ingestion.stream_errors import coded
from headwaters.streams.ingestion.widening import widened
from headwaters.streams.sources.base import Source
from headwaters.streams.sources.unreadable import CHANGED, FIELD
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import commit_of
from headwaters.tables.delta_tables import TableSnapshot, to_compact


@dataclass
class Writer:
    """The writer of one stream's batches into its two tables."""

    stream: Stream
    contract: Contract
    stopping: Stopping
    first: bool = True
    newest: int | None = None  # event time, if the stream is de-duplicated
    unreadable: dict[str, str] = field(default_factory=dict)  # of this batch

    @property
    def _source(self) -> Source:
        return source_of(self.stream, self.contract)

    def write(self, batch: DataFrame, number: int) -> None:
        """Write one micro-batch to bronze, and to quarantine if it has bad records.

        If some of its files cannot be read, write the batch without them.
        """
        try:
            self._write_readable(batch, number)
        except Exception as error:
            self.stream.cause = error
            raise

    def _write_readable(self, batch: DataFrame, number: int) -> None:
        if self.stopping.signal:
            raise StopAsked
        spark = batch.sparkSession
        # Only the first batch of a run may have been written before.
        done = self.first and self._in_bronze(spark, number)
        self.first = False
        checkpoint = self.stream.checkpoint
        known = checkpoint.unreadable(number) if done else self._source.other_forms(number)
        self.unreadable = self._source.gone(number) | known
        bad_before = self.stream.bad.copy()
        while True:
            try:
                return self._write(batch, number, done)
            except Exception as error:
                if isinstance(error, CodedError) or not (
                    found := self._source.unreadable(spark, number, self.unreadable)
                ):
                    raise
                self.unreadable |= found
                self.stream.bad = bad_before.copy()
                self.newest = None  # may include this batch already
                done = self._in_bronze(spark, number)

    def _in_bronze(self, spark: SparkSession, number: int) -> bool:
        written = TableSnapshot(spark, self.stream.bronze).batches
        return written.get(self.stream.checkpoint.app_id, -1) >= number

    def _write(self, batch: DataFrame, number: int, done: bool) -> None:
        source, spark = self._source, batch.sparkSession
        source.check_identity()
        started, at = time.monotonic(), datetime.now(UTC)
        stamps = source.stamps(number)
        rows_before, bad_before = self.stream.rows, self.stream.bad.copy()
        bronze = TableSnapshot(spark, self.stream.bronze)
        quarantine = TableSnapshot(spark, self.stream.quarantine)
        frames = [with_place(raw) for raw in source.records(spark, batch, number, self.unreadable)]
        self._widen(bronze, frames)
        parsed = self._parse(spark, frames, number)
        self._refuse_bad(parsed)
        if self.contract.stream.deduplicate:
            before = self._bronze_before(bronze, number, done)
            parsed = mark_repeated(self.contract, parsed, before, self.newest)
        any_bad = True
        if not done:
            places = self._append_good(bronze, parsed, at, number)
            any_bad = places is not None
            # duplicates are only recognized over all records
            if places is not None and not self.contract.stream.deduplicate:
                frames = [raw.where(among(places)) for raw in frames]
                parsed = self._parse(spark, frames, number)
        else:
            self.newest = None  # does not include this batch yet
        grown = {
            file: CHANGED
            for file, stamp in source.stamps(number).items()
            if stamps.get(file, stamp) != stamp and file not in self.unreadable
        }
        bad = [bad_rows(self.contract, parsed, at, number)] if any_bad else []
        if grown:
            rows = unreadable_rows(spark, self.stream, self.contract, grown, field=None)
            bad.append(bad_rows(self.contract, rows, at, number))
        if bad:
            self._append_bad(quarantine, reduce(DataFrame.union, bad), number)
        self.stream.check_hold()  # Spark commits the batch to the checkpoint after this
        self._account(number, time.monotonic() - started, rows_before, bad_before)
        self._compact_small(bronze)
        if bad:
            self._compact_small(quarantine)

    def _append_good(
        self, bronze: TableSnapshot, parsed: DataFrame, at: datetime, number: int
    ) -> bytes | None:
        """Append a batch's good records to bronze; return the places of its bad ones, or None.

        Topics and files are identified both before and after the read.
        """
        self.stream.check_hold()
        self.stream.checkpoint.keep_unreadable(number, self.unreadable)
        counts = Observation()
        rows = good_rows(self.contract, parsed, at, number, counts)
        bronze.append(rows, self.stream.checkpoint.app_id, number)
        self._source.check_identity()
        found = counts.get
        self.stream.rows += found["good"]
        self.newest = max(filter(None, (self.newest, found.get("newest"))), default=None)
        return found["places"] if found["bad"] > 0 else None

    def _append_bad(self, quarantine: TableSnapshot, bad: DataFrame, number: int) -> None:
        bad = bad.persist()
        self.stream.check_hold()
        try:
            for row in bad.groupBy("reason", "field").count().collect():
                name = f"{row['reason']} {row['field']}" if row["field"] else row["reason"]
                self.stream.bad[name] += row["count"]
            quarantine.append(bad, self.stream.checkpoint.app_id, number)
        finally:
            bad.unpersist()
        self._source.check_identity()

    def _account(self, number: int, took: float, rows: int, bad: Counter[str]) -> None:
        """Count a completed batch, given the counts before it."""
        self.stream.batches += 1
        self.stream.seconds += took
        self.stream.recovered()
        self.stream.log(
            batch=number,
            rows=self.stream.rows - rows,
            quarantined=dict(self.stream.bad - bad),
            seconds=round(took, 3),
        )

    def _parse(self, spark: SparkSession, frames: Sequence[DataFrame], number: int) -> DataFrame:
        """Parse the records of a batch, without those that the tables already had."""
        format_ = format_of(self.contract)
        parsed = [format_.parse(raw, kept=[PLACE]) for raw in frames]
        if self.unreadable or not parsed:
            parsed.append(unreadable_rows(spark, self.stream, self.contract, self.unreadable))
        whole = reduce(DataFrame.unionByName, parsed)
        return self._source.without_stored(spark, whole, number)

    def _widen(self, bronze: TableSnapshot, frames: Sequence[DataFrame]) -> None:
        """Add columns for new fields, if the contract permits it."""
        if self.contract.stream.schema_policy != "add_columns":
            return
        self.contract = widened(bronze, self.contract)
        format_ = format_of(self.contract)
        unknown = sorted({n for raw in frames for n in unknown_fields(format_.parse(raw))})
        types: dict[str, str] = {}
        if self.contract.form == "columns":
            for name, kind in (typed for raw in frames for typed in raw.dtypes):
                types[name] = kind if types.get(name, kind) == kind else "string"
        if added := new_columns(self.contract, unknown, types):
            bronze.add_columns(added)
            self.contract = widened(bronze, self.contract)

    def _bronze_before(self, bronze: TableSnapshot, number: int, done: bool) -> DataFrame:
        """Return bronze before the batch's first write, and the newest event in it.

        A repeated batch must find the same duplicates, although bronze already has its rows.
        """
        version = bronze.version
        if done:
            written = commit_of(bronze.path, self.stream.checkpoint.app_id, number)
            if written is None:
                raise WorkError(
                    "HW_DUPLICATES_UNKNOWN",
                    f"batch {number} was interrupted so long ago that the log of bronze."
                    f"{self.contract.table} no longer has the version before it, so its duplicates "
                    f"cannot be found again: remove {self.stream.checkpoint.path} and run "
                    f"headwaters ingest --select {self.contract.name} --from table",
                )
            version = written - 1
        before = bronze.at(version)
        if self.newest is None:
            row = before.agg(newest_event(self.contract)).first()
            assert row
            self.newest = row[0]
        return before

    def _compact_small(self, table: TableSnapshot) -> None:
        """Compact a table with many small files, between two batches of its writer."""
        before = table.size
        if table.path == self.stream.bronze:
            self.stream.bytes = before.bytes
        if (below := to_compact(before)) is None:
            return
        try:
            table.compact(below)
        except Exception as error:  # the batch is written; the next one retries
            self.stream.log(compaction_failed=str(coded(self.stream, error)))
        else:
            self.stream.log(compacted=table.name, files=before.files, left=table.size.files)

    def _refuse_bad(self, parsed: DataFrame) -> None:
        """Raise before any write if the contract makes bad records stop a stream."""
        refused, nothing_kept = None, "nothing of its batch is kept"
        if self.contract.stream.bad_records == "fail":
            refused = "not _good"
        elif self.contract.stream.schema_policy == "fail":
            refused = "_bad.reason = 'schema'"
        if refused and (row := parsed.where(refused).head()):
            bad = row["_bad"]
            if bad["field"] == FIELD:
                raise WorkError(
                    "HW_BAD_RECORD", f"{row['_source_file']} {bad['message']}; {nothing_kept}"
                )
            what = f"{bad['field']} {bad['message']}" if bad["field"] else bad["message"]
            raise WorkError(
                "HW_BAD_RECORD", f"{self._source.place(row)}: a record {what}; {nothing_kept}"
            )
