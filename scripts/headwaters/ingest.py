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
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headwaters.checkpoint import Checkpoint, Pending, landed
from headwaters.contract import Contract
from headwaters.environment import find_java
from headwaters.errors import UserError, WorkError
from headwaters.manifest import load_contracts
from headwaters.project import Project


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
    bad: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    pending: Pending | None = None
    error: str | None = None
    cause: Exception | None = None
    query: Any = None
    trigger: str | float = "available_now"
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
    def folder(self) -> Path:
        """Where the files of a files stream land."""
        return self.lake / str(self.contract.stream.path)

    @property
    def servers(self) -> str:
        """The brokers of a Kafka stream."""
        from headwaters import kafka

        return self.contract.stream.servers or kafka.servers(self.lake)

    @property
    def idle(self) -> bool:
        """Whether a run would find nothing to do; costs no Spark."""
        tables = all((path / "_delta_log").is_dir() for path in (self.bronze, self.quarantine))
        same = self.checkpoint.contract() == self.contract
        return tables and same and self.pending is not None and self.pending.nothing


def ingest(
    project: Project,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    once: bool = False,
    every: float | None = None,
    metrics_port: int | None = None,
) -> int:
    """Run the selected streams; returns the exit code (see `run`).

    A stream whose trigger is `available_now` ends when nothing is left to read; one with a length
    of time runs on. `once` makes all of them end, `every` (seconds) makes all of them run on.

    Raises UserError, before anything starts, for a contract or a folder that is not right.
    """
    os.chdir(project.root)
    contracts = load_contracts(project.root, select, exclude)
    trigger = "available_now" if once else every
    return run(project, contracts, trigger=trigger, metrics_port=metrics_port)


def run(
    project: Project,
    contracts: Sequence[Contract],
    spark: Any = None,
    trigger: str | float | None = None,
    metrics_port: int | None = None,
) -> int:
    """Run streams; returns 0, 1 when one of them failed, 130 or 143 when a signal cut them short.

    A stream that runs on is restarted when it fails, after 1, 2, 4 … 60 seconds, and ends well
    when a signal asks for it. `trigger` stands above what the contracts say.

    Uses `spark` when it is given and leaves it running. Otherwise Spark is started, unless no
    stream has anything to do, and stopped.
    """
    from headwaters.progress import Display

    streams = [Stream.of(project, contract) for contract in contracts]
    for stream in streams:
        stream.trigger = trigger or stream.contract.stream.trigger
    for stream in streams:
        look(stream)
    with contextlib.ExitStack() as held, Stopping() as stopping, Display(streams) as display:
        for stream in streams:
            held.enter_context(stream.checkpoint.held())
        busy = [stream for stream in streams if stream.endless or not stream.idle]
        if busy:
            display.say("starting Spark")
            with contextlib.ExitStack() as started:
                if metrics_port is not None:
                    from headwaters.metrics import serve

                    started.enter_context(serve(streams, metrics_port))
                if spark is None:
                    spark = start_spark(project)
                    started.callback(spark.stop)
                stopping.take_signals()
                _run(spark, busy, stopping, display)
    display.summary(streams)
    if stopping.signal and not all(stream.endless for stream in busy):
        return 128 + stopping.signal
    return 1 if any(stream.error for stream in streams) else 0


def start_spark(project: Project) -> Any:
    """Spark inside this process, with the project's settings and no metastore.

    Tables are reached by path, so that dbt can hold the metastore at the same time.
    """
    from pyspark.sql import SparkSession

    find_java()
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
    return builder.getOrCreate()


def look(stream: Stream) -> None:
    """See what a stream has not yet read, from its checkpoint and its source; costs no Spark.

    Raises UserError for a folder that is not there, WorkError for a broker or topic.
    """
    declared = stream.contract.stream
    if declared.source == "kafka":
        from headwaters import kafka

        ends = kafka.ranges(stream.servers, declared.topics, declared.client)
        stream.pending = stream.checkpoint.behind(ends)
        return
    if not stream.folder.is_dir():
        raise UserError(
            f"{stream.contract.file}: {stream.contract.name} reads {declared.path}, "
            f"but there is no folder {stream.folder}: land files there, or change 'path'"
        )
    stream.pending = stream.checkpoint.pending(stream.folder)


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


def _working(stream: Stream, stopping: Stopping) -> bool:
    """Whether a stream runs, or will be started again."""
    return stream.query is not None or (stream.endless and not stopping.signal)


def _begin(spark: Any, stream: Stream, stopping: Stopping) -> None:
    try:
        _prepare(spark, stream)
        _finish_cut_short(spark, stream, stopping)
        stream.checkpoint.keep_contract(stream.contract)
        stream.query = _start(spark, stream, stream.contract, stopping)
    except Exception as error:
        _failed(stream, error)


def _ended(stream: Stream) -> None:
    failure = stream.query.exception()
    stream.query = None
    if failure and not isinstance(stream.cause, _StopAsked):
        _failed(stream, stream.cause or failure)
    elif stream.error is None:
        stream.checkpoint.keep_error(None)


def _failed(stream: Stream, error: Exception) -> None:
    stream.error = _one_line(stream, error)
    stream.cause = None
    stream.checkpoint.keep_error(stream.error)
    stream.retry_at = time.monotonic() + min(2.0**stream.failures, 60.0)
    stream.failures += 1
    _log(stream, failed=stream.error)


def _log(stream: Stream, **facts: Any) -> None:
    """One line of JSON for each batch and each failure, in `<lake>/logs/ingest.jsonl`."""
    line = {"at": datetime.now(UTC).isoformat(), "stream": stream.contract.name, **facts}
    file = stream.lake / "logs" / "ingest.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as log:
        log.write(json.dumps(line) + "\n")


def _prepare(spark: Any, stream: Stream) -> None:
    """Make the tables, and see that they and the checkpoint belong together."""
    from headwaters.tables import make_table, state

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
    table, quarantine = state(spark, stream.bronze), state(spark, stream.quarantine)
    files = table.files + quarantine.files
    known = stream.checkpoint.app_id in {*table.batches, *quarantine.batches}
    done = stream.checkpoint.committed >= 0
    if stream.checkpoint.id is None and (files or table.batches):
        raise WorkError(
            f"bronze.{contract.table} has data, but its checkpoint {stream.checkpoint.path} is "
            "missing: reading from the start would double the rows. Put the checkpoint back, or "
            f"remove {stream.bronze} and {stream.quarantine} to ingest everything again"
        )
    if stream.checkpoint.id is not None and done and not known:
        raise WorkError(
            f"the checkpoint {stream.checkpoint.path} has read {stream.checkpoint.committed + 1} "
            f"batches that bronze.{contract.table} never saw: going on would leave them out. Put "
            "the table back, or remove the checkpoint to ingest everything again"
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

    types = ", ".join(f"`{c.name}` {c.data_type}" for c in contract.read_columns)
    frame = spark.createDataFrame([], types)
    for column in contract.computed_columns:
        frame = understood(frame, column.name, str(column.expression))
    for column in contract.columns:
        for rule in column.constraints:
            if rule.expression:
                understood(frame, f"{column.name}:check", rule.expression)


def _finish_cut_short(spark: Any, stream: Stream, stopping: Stopping) -> None:
    """Run a batch that was cut short with the contract that it was begun with.

    Its rows may already be in one of the two tables. Split by another contract, a record could
    then end up in both, or in neither.
    """
    before = stream.checkpoint.contract()
    if stream.checkpoint.unfinished and before is not None and before != stream.contract:
        _start(spark, stream, before, stopping, finish=True).awaitTermination()


def _start(
    spark: Any, stream: Stream, contract: Contract, stopping: Stopping, finish: bool = False
) -> Any:
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", contract.name)
    writer = Writer(stream, contract, stopping)
    query = (
        _read(spark, stream, contract)
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


def _read(spark: Any, stream: Stream, contract: Contract) -> Any:
    """The source as a streaming DataFrame: what the format delivers, and `_source_file`."""
    from pyspark.sql import functions as F

    from headwaters.records import CORRUPT, read_schema

    declared = contract.stream
    if declared.source == "kafka":
        return _read_kafka(spark, stream, contract)
    # Spark forgets files that are a week older than the newest one; a late file must not be lost.
    options = {"recursiveFileLookup": "true", "maxFileAge": "36500d"}
    if declared.batch.max_files:
        options["maxFilesPerTrigger"] = str(declared.batch.max_files)
    if declared.batch.max_bytes:
        options["maxBytesPerTrigger"] = declared.batch.max_bytes
    reader = spark.readStream.options(**options)
    folder = f"file://{stream.folder}"
    if declared.format == "json":
        raw = reader.text(folder).where(F.trim("value") != "")
        columns = [F.col("value")]
    elif declared.format == "csv":
        csv = {"header": "true", "enforceSchema": "false", **declared.options}
        raw = reader.options(**csv, columnNameOfCorruptRecord=CORRUPT).csv(
            folder, schema=read_schema(contract)
        )
        columns = [F.col(f"`{name}`") for name in raw.columns]
    else:
        files = [f"file://{file}" for file in landed(stream.folder)]
        known = spark.read.option("mergeSchema", "true").options(**declared.options)
        schema = known.parquet(*files).schema if files else read_schema(contract)
        raw = reader.options(**declared.options).schema(schema).parquet(folder)
        columns = [F.col(f"`{name}`") for name in raw.columns]
    return raw.select(*columns, _source_file(stream.lake).alias("_source_file"))


def _read_kafka(spark: Any, stream: Stream, contract: Contract) -> Any:
    from pyspark.sql import functions as F

    declared = contract.stream
    options = {
        "kafka.bootstrap.servers": stream.servers,
        "subscribe": ",".join(declared.topics),
        "includeHeaders": "true",
        "failOnDataLoss": str(declared.data_loss == "fail").lower(),
        **{f"kafka.{key}": value for key, value in declared.client.items()},
    }
    if isinstance(declared.start, str):
        options["startingOffsets"] = declared.start
    elif declared.start.offsets is not None:
        options["startingOffsets"] = json.dumps(declared.start.offsets)
    elif declared.start.timestamp is not None:
        moment = declared.start.timestamp
        options["startingTimestamp"] = str(int(moment.timestamp() * 1000))
        options["startingOffsetsByTimestampStrategy"] = "latest"
    batch = declared.batch
    if batch.max_records:
        options["maxOffsetsPerTrigger"] = str(batch.max_records)
    if batch.min_records:
        options["minOffsetsPerTrigger"] = str(batch.min_records)
        options["maxTriggerDelay"] = f"{int(batch.max_delay or 30)}s"
    raw = spark.readStream.format("kafka").options(**options).load()
    return raw.select(
        F.col("value").cast("string").alias("value"),
        *[F.col(name.removeprefix("_")).alias(name) for name in contract.origin],
    )


def _source_file(lake: Path) -> Any:
    """The path of a record's file: inside the lake relative to it, so that the lake may move."""
    from pyspark.sql import functions as F

    path = F.col("_metadata.file_path")
    decoded = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
    path = F.when(path.contains("%"), decoded).otherwise(path)
    for prefix in (f"file://{lake}/", f"file:{lake}/"):
        path = F.replace(path, F.lit(prefix), F.lit(""))
    return path


@dataclass
class Writer:
    """Writes the batches of one stream into its two tables."""

    stream: Stream
    contract: Contract
    stopping: Stopping
    first: bool = True

    def write(self, batch: Any, number: int) -> None:
        """One micro-batch: bronze, and quarantine when something in it is bad."""
        try:
            self._write(batch, number)
        except Exception as error:
            self.stream.cause = error
            raise

    def _write(self, batch: Any, number: int) -> None:
        from pyspark.sql import Observation

        from headwaters.records import bad_rows, good_rows, parse
        from headwaters.tables import state

        if self.stopping.signal:
            raise _StopAsked
        started = time.monotonic()
        at = datetime.now(UTC)
        rows_before, bad_before = self.stream.rows, self.stream.bad.copy()
        parsed = parse(self.contract, batch)
        self._refuse_bad(parsed)
        # Only the first batch of a run can be one that was written before.
        spark, app = batch.sparkSession, self.stream.checkpoint.app_id
        done = self.first and state(spark, self.stream.bronze).batches.get(app, -1) >= number
        self.first = False
        any_bad = True
        if not done:
            counts = Observation()
            self._append(
                good_rows(self.contract, parsed, at, number, counts), self.stream.bronze, number
            )
            found = counts.get
            self.stream.rows += found["good"]
            any_bad = any(count for reason, count in found.items() if reason != "good")
        if any_bad:
            bad = bad_rows(self.contract, parsed, at, number, Observation()).persist()
            try:
                for row in bad.groupBy("reason", "field").count().collect():
                    name = f"{row['reason']} {row['field']}" if row["field"] else row["reason"]
                    self.stream.bad[name] += row["count"]
                self._append(bad, self.stream.quarantine, number)
            finally:
                bad.unpersist()
        took = time.monotonic() - started
        self.stream.batches += 1
        self.stream.seconds += took
        self.stream.failures, self.stream.error = 0, None
        _log(
            self.stream,
            batch=number,
            rows=self.stream.rows - rows_before,
            quarantined=dict(self.stream.bad - bad_before),
            seconds=round(took, 3),
        )

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
        refused = None
        if self.contract.stream.bad_records == "fail":
            refused = "_bad is not null"
        elif self.contract.stream.schema_policy == "fail":
            refused = "_bad.reason = 'schema'"
        if refused and (row := parsed.where(refused).head()):
            bad = row["_bad"]
            what = f"{bad['field']} {bad['message']}" if bad["field"] else bad["message"]
            if self.contract.stream.source == "kafka":
                where = f"{row['_topic']}, partition {row['_partition']}, offset {row['_offset']}"
            else:
                where = row["_source_file"]
            raise WorkError(f"{where}: a record {what}; nothing of its batch is kept")


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


def _one_line(stream: Stream, error: BaseException) -> str:
    """The line of an error that matters: the innermost cause, and where the rest is."""
    if isinstance(error, UserError | WorkError):
        return str(error)
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = " ".join(str(error if java is None else java.getMessage()).split())
    if "failOnDataLoss" in text or "KAFKA_DATA_LOSS" in text:
        text = (
            "records were deleted from the topic (by its retention, or with the topic) before they "
            "were read; with `data_loss: skip` the stream goes on after them. " + text
        )
    shown = text if len(text) <= 400 else text[:400] + "…"
    return f"{shown or type(error).__name__} (more in {stream.lake / 'logs' / 'spark.log'})"
