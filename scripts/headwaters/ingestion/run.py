"""`headwaters ingest`: streams into bronze and quarantine, exactly once.

Each stream is one Structured Streaming query. Its batches are written by `Writer.write` into two
Delta tables, each write marked with the checkpoint's own identity and the batch's number
(`txnAppId`, `txnVersion`), so that a batch that runs again after a crash changes nothing that it
wrote before.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from headwaters import lake as lakes
from headwaters.contract import ORIGIN, Column, Contract, StartAt, new_columns
from headwaters.delta_log import commit_of, exists
from headwaters.errors import UserError, WorkError, java_ended, quiet
from headwaters.ingestion import unreadable
from headwaters.ingestion.checkpoint import Checkpoint, Pending
from headwaters.ingestion.lost_checkpoint import (
    KEEP_LATEST,
    From,
    decide,
    decide_recreated,
    left_out,
)
from headwaters.java import spark_java
from headwaters.manifest import load_contracts
from headwaters.project import Project
from headwaters.servers import check_port
from headwaters.sources import kafka_client as kafka
from headwaters.sources.base import TopicRecreated, begins, look, read, records, topic_ids


class _StopAsked(Exception):
    """Ends a query between two batches."""


@dataclass
class Stream:
    """One stream of this run: what it is, where it lives, and what it has done so far."""

    contract: Contract
    checkpoint: Checkpoint
    bronze: Path
    quarantine: Path
    lake: Path
    batches: int = 0
    rows: int = 0
    bytes: int = 0  # of bronze
    bad: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    pending: Pending | None = None
    error: str | None = None
    cause: Exception | None = None
    query: Any = None
    trigger: str | float = "available_now"
    begin: From | None = None
    well: bool = False  # since its query began
    failures: int = 0
    retry_at: float = 0.0

    @classmethod
    def of(cls, project: Project, contract: Contract) -> Stream:
        """The stream of a contract in this project's lake."""
        bronze = project.warehouse / "bronze.db"
        return cls(
            contract=contract,
            checkpoint=Checkpoint(project.lake / "checkpoints" / contract.name),
            bronze=bronze / contract.table,
            quarantine=bronze / f"{contract.table}_quarantine",
            lake=project.lake,
        )

    @property
    def endless(self) -> bool:
        """Whether the stream runs on when nothing is left to read."""
        return self.trigger != "available_now"

    @property
    def path(self) -> Path:
        """The folder of a files stream, the table of a Delta stream."""
        return self.lake / str(self.contract.stream.path)

    @property
    def start(self) -> str | StartAt:
        """Where the first batch begins: as `--from` said, or else as declared."""
        begun = self.checkpoint.begun().get("from", "table")
        named = begun in ("earliest", "latest")
        return begun if named else self.contract.stream.start

    @property
    def servers(self) -> str:
        """The brokers of a Kafka stream."""
        return self.contract.stream.servers or kafka.servers(self.lake)

    @property
    def client(self) -> dict[str, str]:
        """The settings of a Kafka client, secrets among them: read each time, and never kept.

        Raises UserError for an environment variable that is not set.
        """
        return kafka.resolved(self._where, self.contract.stream.client)

    @property
    def java_client(self) -> dict[str, str]:
        """The same for Java's client, as options of Spark; it looks up secrets by itself."""
        settings = kafka.for_java(self._where, self.contract.stream.client)
        return {f"kafka.{key}": value for key, value in settings.items()}

    @property
    def _where(self) -> str:
        return f"{self.contract.file}: {self.contract.name}"

    @property
    def idle(self) -> bool:
        """Whether a run would find nothing to do; costs no Spark."""
        tables = all(map(exists, (self.bronze, self.quarantine)))
        same = self.checkpoint.contract() == self.contract
        return tables and same and self.pending is not None and self.pending.nothing


def ingest(
    project: Project,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    once: bool = False,
    every: float | None = None,
    metrics_port: int | None = None,
    begin: From | None = None,
) -> int:
    """Run the selected streams; returns the exit code (see `run`).

    A stream whose trigger is `available_now` ends when nothing is left to read; one with a length
    of time runs on. `once` makes all of them end, `every` (seconds) makes all of them run on.
    `begin` says where streams without a checkpoint begin.

    Raises UserError, before anything starts, for a contract or a folder that is not right.
    """
    check_port(metrics_port, "--metrics-port")
    lakes.enter(project.lake)
    os.chdir(project.root)
    contracts = load_contracts(project.root, select, exclude)
    trigger = "available_now" if once else every
    return run(project, contracts, trigger=trigger, metrics_port=metrics_port, begin=begin)


def run(
    project: Project,
    contracts: Sequence[Contract],
    spark: Any = None,
    trigger: str | float | None = None,
    metrics_port: int | None = None,
    begin: From | None = None,
) -> int:
    """Run streams; returns 0, 1 when one of them failed, 130 or 143 when a signal cut them short.

    A stream that runs on is restarted when it fails, after 1, 2, 4 … 60 seconds, and ends well
    when a signal asks for it. `trigger` stands above what the contracts say.

    Uses `spark` when it is given and leaves it running. Otherwise Spark is started, unless no
    stream has anything to do, and stopped.
    """
    from headwaters.ingestion.progress import Display

    lakes.enter(project.lake)
    streams = [Stream.of(project, contract) for contract in contracts]
    for stream in streams:
        stream.trigger = stream.contract.stream.trigger if trigger is None else trigger
        if begin == "recreated":
            known = stream.contract.stream.source == "kafka" and stream.checkpoint.exists
            stream.begin = begin if known else None
        else:
            stream.begin = None if stream.checkpoint.exists else begin
    if begin == "recreated" and not any(stream.begin for stream in streams):
        raise UserError(
            "--from recreated is for a Kafka stream with a checkpoint, and none of these is one: "
            "choose with --select"
        )
    if begin and not any(stream.begin for stream in streams):
        raise UserError(
            f"--from {begin} is for a stream without a checkpoint, and each of these has one: they "
            "go on from there"
        )
    with contextlib.ExitStack() as held, Stopping() as stopping, Display(streams) as display:
        busy = [stream for stream in streams if _has_work(stream, held)]
        if busy:
            display.say("starting Spark")
            with contextlib.ExitStack() as started:
                if metrics_port is not None:
                    from headwaters.ingestion.metrics import serve

                    started.enter_context(serve(streams, metrics_port))
                if spark is None:
                    spark = start_spark(project)
                    started.callback(_stop, spark)
                stopping.take_signals()
                _run(spark, busy, stopping, display)
    display.summary(streams)
    if stopping.signal and not all(stream.endless for stream in busy):
        return 128 + stopping.signal
    return 1 if any(stream.error for stream in streams) else 0


def _has_work(stream: Stream, held: contextlib.ExitStack) -> bool:
    """Whether a stream is this process's own and has something to do; its trouble is its own."""
    try:
        held.enter_context(stream.checkpoint.held())
    except WorkError as error:
        stream.error = str(error)  # error.txt is for the process that holds it
        return False
    except OSError as error:
        stream.error = f"{error.filename or stream.checkpoint.path}: {error.strerror}"
        return False
    try:
        stream.checkpoint.replace()
        look(stream)
        if stream.endless or stream.begin == "recreated" or not stream.idle:
            return True
        _keep_error(stream)
        return False
    except WorkError as error:
        _failed(stream, error)
        return stream.endless


def start_spark(project: Project) -> Any:
    """Spark inside this process, with the project's settings and no metastore.

    Tables are reached by path, so that dbt can hold the metastore at the same time.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    lakes.enter(project.lake)
    spark_java()
    (project.lake / "logs").mkdir(parents=True, exist_ok=True)
    builder = SparkSession.builder
    settings = project.spark_settings("local") | {
        "spark.app.name": "headwaters ingest",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.scheduler.mode": "FAIR",
        # as dbt sets it: a computed column that fails on one record is null, and does not stop all
        "spark.sql.ansi.enabled": "false",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    quiet()
    try:
        return builder.getOrCreate()
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        log = project.lake / "logs" / "spark.log"
        raise WorkError(f"Spark does not start: {reason} (more in {log})") from None


def _stop(spark: Any) -> None:
    with contextlib.suppress(ConnectionError):  # Java has ended, which is said elsewhere
        spark.stop()


def _run(spark: Any, streams: Sequence[Stream], stopping: Stopping, display: Any) -> None:
    for stream in streams:
        _begin(spark, stream, stopping)
    look_at = time.monotonic() + LOOK_EVERY
    while any(_working(stream, stopping) for stream in streams):
        for stream in streams:
            if stream.query is None:
                if stream.endless and not stopping.signal and time.monotonic() >= stream.retry_at:
                    _begin(spark, stream, stopping)
            elif not stream.query.isActive:
                _ended(stream)
            elif not stream.well and _has_looked(stream.query):
                stream.well = True
                _recovered(stream)
            elif stopping.signal and not stream.query.status["isTriggerActive"]:
                # a batch in flight ends first; the next one would stop the query by itself
                stream.query.stop()
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + LOOK_EVERY
            for stream in streams:
                with contextlib.suppress(UserError, WorkError, OSError):
                    look(stream)
        display.refresh()
        time.sleep(0.1)


LOOK_EVERY = 15.0  # seconds, for the backlog


def _has_looked(query: Any) -> bool:
    """Whether a query has come through a trigger, with a batch or with nothing to read."""
    return bool(query.lastProgress) or str(query.status["message"]).startswith("Waiting")


def _working(stream: Stream, stopping: Stopping) -> bool:
    """Whether a stream runs, or will be started again."""
    return stream.query is not None or (stream.endless and not stopping.signal)


def _begin(spark: Any, stream: Stream, stopping: Stopping) -> None:
    stream.well = False
    try:
        _prepare(spark, stream)
        _finish_cut_short(spark, stream, stopping)
        stream.checkpoint.keep_contract(stream.contract)
        if not begins(spark, stream):
            _recovered(stream)
            stream.retry_at = time.monotonic() + LOOK_EVERY
            return
        stream.query = _start(spark, stream, stream.contract, stopping)
    except ConnectionError as error:
        if java_ended():  # no stream can be started again
            raise
        _failed(stream, error)
    except Exception as error:
        _failed(stream, error)


def _ended(stream: Stream) -> None:
    failure = stream.query.exception()
    stream.query = None
    if failure and not isinstance(stream.cause, _StopAsked):
        _failed(stream, _recreated(stream) or stream.cause or failure)
    elif stream.error is None:
        _keep_error(stream)


def _recreated(stream: Stream) -> TopicRecreated | None:
    """That a topic is another, of which Spark may only see that offsets are gone."""
    try:
        if stream.contract.stream.source == "kafka":
            topic_ids(stream)
    except TopicRecreated as error:
        return error
    except (UserError, WorkError):
        pass
    return None


def _failed(stream: Stream, error: Exception) -> None:
    stream.error = one_line(stream, error)
    stream.cause = None
    _keep_error(stream)
    stream.retry_at = time.monotonic() + min(2.0**stream.failures, 60.0)
    stream.failures += 1
    _log(stream, failed=stream.error)


def _recovered(stream: Stream) -> None:
    """Forget why a stream failed: it runs again, though it may have nothing to read."""
    stream.failures, stream.error = 0, None
    _keep_error(stream)


def _keep_error(stream: Stream) -> None:
    with contextlib.suppress(OSError):  # a full disk must not stop the streams beside
        stream.checkpoint.keep_error(stream.error)


def _log(stream: Stream, **facts: Any) -> None:
    """One line of JSON for each batch and each failure, in `<lake>/logs/ingest.jsonl`."""
    line = {"at": datetime.now(UTC).isoformat(), "stream": stream.contract.name, **facts}
    file = stream.lake / "logs" / "ingest.jsonl"
    with contextlib.suppress(OSError):  # the batch is written, whether or not the disk is full now
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as log:
            log.write(json.dumps(line) + "\n")


def _prepare(spark: Any, stream: Stream) -> None:
    """Make the tables, and see that they and the checkpoint belong together."""
    from headwaters.tables import make_table, size, state

    contract = stream.contract
    before = stream.checkpoint.contract()
    if before is not None and before.stream.source != contract.stream.source:
        raise WorkError(
            f"bronze.{contract.table} has been read from {before.stream.source} so far, and "
            f"{contract.file} now says {contract.stream.source}: use a lake of its own "
            f"(HEADWATERS_LAKE), or remove {stream.checkpoint.path} and both tables to start anew"
        )
    _check_expressions(spark, contract)
    make_table(spark, stream.bronze, contract.bronze_columns(), contract.bronze_properties())
    make_table(
        spark, stream.quarantine, contract.quarantine_columns(), contract.quarantine_properties()
    )
    if stream.begin == "recreated":
        decide_recreated(spark, stream)
        stream.checkpoint.replace()
        stream.begin = None
    if contract.stream.source == "kafka":
        stream.checkpoint.keep_topics(topic_ids(stream))
    table, quarantine = state(spark, stream.bronze), state(spark, stream.quarantine)
    if stream.begin:
        decide(spark, stream, stream.begin)
        stream.begin = None  # a stream that is started again goes on with what was decided
    new = stream.checkpoint.id is None and not stream.checkpoint.begun()
    tables = (stream.bronze, stream.quarantine)
    if new and (table.batches or any(size(spark, path).files for path in tables)):
        raise WorkError(
            f"bronze.{contract.table} has data, but its checkpoint {stream.checkpoint.path} is "
            f"missing. Put it back, or say where to go on: headwaters ingest --select "
            f"{contract.name} --from table (after what bronze and quarantine hold), --from latest "
            "(with what comes from now on) or --from earliest (everything again, also what is in "
            "the table)"
        )
    latest = contract.stream.start == "latest" and contract.stream.source in KEEP_LATEST
    if latest and stream.checkpoint.planned < 0 and not stream.checkpoint.begun():
        decide(spark, stream, "latest")
    _see_same_batches(stream, table.batches, quarantine.batches)


def _see_same_batches(
    stream: Stream, bronze: Mapping[str, int], quarantine: Mapping[str, int]
) -> None:
    """Raise WorkError where checkpoint and tables are not of the same time: one was put back.

    Every batch leaves its number in bronze, so that bronze is never behind what the checkpoint has
    committed, nor ahead of what it has planned.
    """
    checkpoint, table = stream.checkpoint, f"bronze.{stream.contract.table}"
    remedy = (
        f"remove {checkpoint.path} and say where to go on: headwaters ingest --select "
        f"{stream.contract.name} --from table (after what bronze and quarantine hold)"
    )
    written = bronze.get(checkpoint.app_id, -1)
    if written < checkpoint.committed:
        raise WorkError(
            f"the checkpoint {checkpoint.path} has read {checkpoint.committed - written} batches "
            f"that {table} never saw: going on would leave them out. Put the newer table back, or "
            + remedy
        )
    newest = max(written, quarantine.get(checkpoint.app_id, -1))
    if newest > checkpoint.planned:
        raise WorkError(
            f"{table} has {newest - checkpoint.planned} batches that its checkpoint "
            f"{checkpoint.path} does not know, an older copy: going on would leave out what comes "
            "next. Put the newer checkpoint back, or " + remedy
        )


def _check_expressions(spark: Any, contract: Contract) -> None:
    """Raise UserError for a computed column or a check that Spark cannot understand."""
    from pyspark.errors import PySparkException

    def understood(frame: Any, what: str, expression: str) -> Any:
        try:
            return frame.selectExpr("*", f"({expression}) as `{what}`")
        except PySparkException as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                f"{contract.file}: {contract.name}.{what}: expression {expression}: {reason}"
            ) from None

    names = [(c.name, c.data_type) for c in contract.read_columns]
    names += ORIGIN[contract.stream.source]  # a computed column may take a record's own time or key
    types = ", ".join(f"`{name}` {kind}" for name, kind in names)
    frame = spark.createDataFrame([], types)
    for column in contract.computed_columns:
        frame = understood(frame, column.name, str(column.expression))
    for column in contract.columns:
        for rule in column.constraints:
            if rule.expression:
                understood(frame, f"{column.name}:check", rule.expression)


def _finish_cut_short(spark: Any, stream: Stream, stopping: Stopping) -> None:
    """Run a batch of which bronze has its part with the contract that it was begun with.

    Split by another contract, a record could end up in both tables, or in neither. How the source
    is reached may be mended meanwhile.
    """
    from headwaters.tables import state

    checkpoint, before = stream.checkpoint, stream.checkpoint.contract()
    if not checkpoint.unfinished or before is None or before == stream.contract:
        return
    if state(spark, stream.bronze).batches.get(checkpoint.app_id, -1) < checkpoint.planned:
        return
    now = stream.contract.stream
    reached = {"servers": now.servers, "client": now.client, "data_loss": now.data_loss}
    before = before.model_copy(update={"stream": before.stream.model_copy(update=reached)})
    _start(spark, stream, before, stopping, finish=True).awaitTermination()


def _start(
    spark: Any, stream: Stream, contract: Contract, stopping: Stopping, finish: bool = False
) -> Any:
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", contract.name)
    writer = Writer(stream, contract, stopping)
    query = (
        read(spark, stream, contract)
        .writeStream.queryName(contract.name)
        .option("checkpointLocation", str(stream.checkpoint.path))
        .foreachBatch(writer.write)
    )
    # `once` runs a batch that was cut short and no other
    if finish:
        return query.trigger(once=True).start()
    if not stream.endless:
        return query.trigger(availableNow=True).start()
    return query.trigger(processingTime=f"{stream.trigger} seconds").start()


@dataclass
class Writer:
    """Writes the batches of one stream into its two tables."""

    stream: Stream
    contract: Contract
    stopping: Stopping
    first: bool = True
    newest: int | None = None  # event, of a stream that is de-duplicated
    unreadable: dict[str, str] = field(default_factory=dict)  # of this batch

    def write(self, batch: Any, number: int) -> None:
        """One micro-batch: bronze, and quarantine when something in it is bad.

        Where files of it cannot be read, the batch is written without them.
        """
        try:
            self._write_readable(batch, number)
        except Exception as error:
            self.stream.cause = error
            raise

    def _write_readable(self, batch: Any, number: int) -> None:
        if self.stopping.signal:
            raise _StopAsked
        spark = batch.sparkSession
        # Only the first batch of a run can be one that was written before.
        done = self.first and self._in_bronze(spark, number)
        self.first = False
        self.unreadable = self.stream.checkpoint.unreadable(number) if done else {}
        self.unreadable = unreadable.gone(self.stream, number) | self.unreadable
        bad_before = self.stream.bad.copy()
        while True:
            try:
                return self._write(batch, number, done)
            except Exception as error:
                args = (spark, self.stream, self.contract, number, self.unreadable)
                if isinstance(error, UserError | WorkError) or not (
                    found := unreadable.find(*args)
                ):
                    raise
                self.unreadable |= found
                self.stream.bad = bad_before.copy()
                self.newest = None  # may know this batch by now
                done = self._in_bronze(spark, number)

    def _in_bronze(self, spark: Any, number: int) -> bool:
        from headwaters.tables import state

        written = state(spark, self.stream.bronze).batches
        return written.get(self.stream.checkpoint.app_id, -1) >= number

    def _write(self, batch: Any, number: int, done: bool) -> None:
        from pyspark.sql import Observation

        from headwaters.formats.base import among, bad_rows, good_rows, mark_repeated, with_place

        self._see_same_topics()
        started = time.monotonic()
        at = datetime.now(UTC)
        rows_before, bad_before = self.stream.rows, self.stream.bad.copy()
        spark = batch.sparkSession
        read = records(spark, self.stream, self.contract, batch, number, self.unreadable)
        frames = [with_place(raw) for raw in read]
        self._widen(spark, frames)
        parsed = self._parse(spark, frames, number)
        self._refuse_bad(parsed)
        if self.contract.stream.deduplicate:
            before = self._bronze_before(spark, number, done)
            parsed = mark_repeated(self.contract, parsed, before, self.newest)
        any_bad = True
        if not done:
            if self.contract.stream.source == "files":
                self.stream.checkpoint.keep_unreadable(number, self.unreadable)
            counts = Observation()
            self._append(
                good_rows(self.contract, parsed, at, number, counts), self.stream.bronze, number
            )
            self._see_same_topics()
            found = counts.get
            self.stream.rows += found["good"]
            any_bad = found["bad"] > 0
            self.newest = max(filter(None, (self.newest, found.get("newest"))), default=None)
            # which of the records repeat a key is only told over all of them
            if any_bad and not self.contract.stream.deduplicate:
                frames = [raw.where(among(found["places"])) for raw in frames]
                parsed = self._parse(spark, frames, number)
        else:
            self.newest = None  # does not know this batch yet
        if any_bad:
            bad = bad_rows(self.contract, parsed, at, number).persist()
            try:
                for row in bad.groupBy("reason", "field").count().collect():
                    name = f"{row['reason']} {row['field']}" if row["field"] else row["reason"]
                    self.stream.bad[name] += row["count"]
                self._append(bad, self.stream.quarantine, number)
            finally:
                bad.unpersist()
            self._see_same_topics()
        took = time.monotonic() - started
        self.stream.batches += 1
        self.stream.seconds += took
        _recovered(self.stream)
        _log(
            self.stream,
            batch=number,
            rows=self.stream.rows - rows_before,
            quarantined=dict(self.stream.bad - bad_before),
            seconds=round(took, 3),
        )
        self._keep_up(spark, self.stream.bronze)
        if any_bad:
            self._keep_up(spark, self.stream.quarantine)

    def _see_same_topics(self) -> None:
        """Raise TopicRecreated where what is read, or was read just now, is not the known topic.

        Asked before and after: a topic may be recreated at any moment of a batch.
        """
        if self.contract.stream.source == "kafka":
            topic_ids(self.stream)

    def _parse(self, spark: Any, frames: Sequence[Any], number: int) -> Any:
        """The records of a batch, parsed, without those that the tables had from before."""
        from pyspark.sql import DataFrame

        from headwaters.formats.base import PLACE, parse

        parsed = [parse(self.contract, raw, kept=[PLACE]) for raw in frames]
        if self.unreadable or not parsed:
            parsed.append(unreadable.rows(spark, self.stream, self.contract, self.unreadable))
        whole = reduce(DataFrame.unionByName, parsed)
        return left_out(spark, self.stream, self.contract, whole, number)

    def _widen(self, spark: Any, frames: Sequence[Any]) -> None:
        """Make columns of fields that are new, where the contract says so."""
        from headwaters.formats.base import parse, unknown_fields
        from headwaters.tables import add_columns

        if self.contract.stream.schema_policy != "add_columns":
            return
        self.contract = widened(spark, self.stream.bronze, self.contract)
        unknown = sorted({n for raw in frames for n in unknown_fields(parse(self.contract, raw))})
        types: dict[str, str] = {}
        if self.contract.form == "columns":
            for name, kind in (typed for raw in frames for typed in raw.dtypes):
                types[name] = kind if types.get(name, kind) == kind else "string"
        if added := new_columns(self.contract, unknown, types):
            add_columns(spark, self.stream.bronze, added)
            self.contract = widened(spark, self.stream.bronze, self.contract)

    def _bronze_before(self, spark: Any, number: int, done: bool) -> Any:
        """Bronze as it was when the batch was first written, and the newest event in it.

        A batch that runs again must find the same duplicates, though its rows are in bronze now.
        """
        from headwaters.formats.base import newest_event
        from headwaters.tables import state

        version = state(spark, self.stream.bronze).version
        if done:
            written = commit_of(self.stream.bronze, self.stream.checkpoint.app_id, number)
            if written is None:
                raise WorkError(
                    f"batch {number} was cut short so long ago that the log of bronze."
                    f"{self.contract.table} no longer says what came before it, and its duplicates "
                    f"cannot be found again: remove {self.stream.checkpoint.path} and run "
                    f"headwaters ingest --select {self.contract.name} --from table"
                )
            version = written - 1
        reader = spark.read.format("delta").option("versionAsOf", version)
        before = reader.load(str(self.stream.bronze))
        if self.newest is None:
            self.newest = before.agg(newest_event(self.contract)).first()[0]
        return before

    def _keep_up(self, spark: Any, table: Path) -> None:
        """Compact a table when small files have piled up: between two batches of its writer."""
        from headwaters.tables import compact, size, to_compact

        before = size(spark, table)
        if table == self.stream.bronze:
            self.stream.bytes = before.bytes
        if (below := to_compact(before)) is None:
            return
        try:
            compact(spark, table, below)
        except Exception as error:  # the batch is written; the next one tries again
            _log(self.stream, compaction_failed=one_line(self.stream, error))
        else:
            left = size(spark, table).files
            _log(self.stream, compacted=table.name, files=before.files, left=left)

    def _append(self, rows: Any, table: Path, number: int) -> None:
        (
            rows.write.format("delta")
            .mode("append")
            .option("txnAppId", self.stream.checkpoint.app_id)
            .option("txnVersion", number)
            .save(str(table))
        )

    def _refuse_bad(self, parsed: Any) -> None:
        """Stop before anything is written when the contract says that bad records stop a stream."""
        refused, nothing_kept = None, "nothing of its batch is kept"
        if self.contract.stream.bad_records == "fail":
            refused = "not _good"
        elif self.contract.stream.schema_policy == "fail":
            refused = "_bad.reason = 'schema'"
        if refused and (row := parsed.where(refused).head()):
            bad = row["_bad"]
            if bad["field"] == unreadable.FIELD:
                raise WorkError(f"{row['_source_file']} {bad['message']}; {nothing_kept}")
            what = f"{bad['field']} {bad['message']}" if bad["field"] else bad["message"]
            if self.contract.stream.source == "kafka":
                where = f"{row['_topic']}, partition {row['_partition']}, offset {row['_offset']}"
            elif self.contract.stream.source == "files":
                where = row["_source_file"]
            else:
                where = self.contract.stream.path or self.contract.stream.source
            raise WorkError(f"{where}: a record {what}; {nothing_kept}")


def widened(spark: Any, bronze: Path, contract: Contract) -> Contract:
    """The contract with the columns that its table has got beyond it, where it lets them come."""
    from headwaters.tables import columns

    if contract.stream.schema_policy != "add_columns":
        return contract
    known = {name.lower() for name, _ in contract.bronze_columns()}
    beyond = [
        Column(name=name, data_type=kind)
        for name, kind in columns(spark, bronze)
        if name.lower() not in known
    ]
    return contract.model_copy(update={"columns": (*contract.columns, *beyond)})


class Stopping:
    """SIGINT and SIGTERM ask for an end after the batch in flight; a second one ends at once."""

    def __init__(self) -> None:
        """No signal has come yet."""
        self.signal = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        """Take no signals yet."""
        return self

    def take_signals(self) -> None:
        """Take both signals over (Spark's start takes SIGINT for itself)."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._ask)

    def _ask(self, number: int, _: object) -> None:
        self.signal = number
        for taken, before in self._before.items():
            signal.signal(taken, before)

    def __exit__(self, *_: object) -> None:
        """Give the signals back."""
        for taken, before in self._before.items():
            signal.signal(taken, before)


def one_line(stream: Stream, error: BaseException) -> str:
    """The line of an error that matters: the innermost cause, and where the rest is."""
    if isinstance(error, UserError | WorkError):
        return str(error)
    java = getattr(error, "java_exception", None)
    chain = str(error)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
        chain += str(java.getMessage())
    text = " ".join(str(error if java is None else java.getMessage()).split())
    if "failOnDataLoss" in chain or "KAFKA_DATA_LOSS" in chain:
        text = (
            "records were deleted from the topic (by its retention, or with the topic) before they "
            "were read; with `data_loss: skip` the stream goes on after them. " + text
        )
    if "DELTA_SOURCE_TABLE_IGNORE_CHANGES" in text or "DELTA_SOURCE_IGNORE_DELETE" in text:
        text = (
            "rows of its source were changed or deleted; `on_change: skip` leaves such commits "
            "out, `on_change: ignore` reads again what they wrote, and `from: delta_changes` reads "
            "each change. " + text
        )
    if file := re.search(r"reading file (file:\S+?)\.\s", chain):
        text = re.sub("^file:/+", "/", unquote(file[1])) + f": {text}"
    shown = text if len(text) <= 400 else text[:400] + "…"
    return f"{shown or type(error).__name__} (more in {stream.lake / 'logs' / 'spark.log'})"
