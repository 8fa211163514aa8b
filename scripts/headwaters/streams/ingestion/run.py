"""`headwaters ingest`: streams into bronze and quarantine, exactly once.

Each stream is one Structured Streaming query, whose batches `Writer` writes. A failed stream
restarts, and the others continue.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headwaters.platform.delta_version import SCHEMA_FOLLOWED
from headwaters.platform.errors import CodedError, UserError, WorkError, exit_code, java_ended
from headwaters.platform.leases import lost
from headwaters.platform.project import Project
from headwaters.platform.servers import check_port
from headwaters.platform.spark_errors import conditions
from headwaters.streams.contract import Contract
from headwaters.streams.ingestion import guards
from headwaters.streams.ingestion.contracts import load_contracts
from headwaters.streams.ingestion.inputs import refresh_backlog, source_of
from headwaters.streams.ingestion.metrics import serve
from headwaters.streams.ingestion.progress import Display
from headwaters.streams.ingestion.spark import start_spark, stop
from headwaters.streams.ingestion.stopping import StopAsked, Stopping
from headwaters.streams.ingestion.stream_errors import coded
from headwaters.streams.ingestion.writer import Writer
from headwaters.streams.sources.base import SourceReplaced
from headwaters.streams.stream import From, Stream
from headwaters.tables.delta_tables import TableSnapshot


def ingest(
    project: Project,
    select: Sequence[str] = (),
    exclude: Sequence[str] = (),
    once: bool = False,
    every: float | None = None,
    metrics_port: int | None = None,
    begin: From | None = None,
) -> int:
    """Run the selected streams; return the exit code (see `run`).

    A stream with the trigger `available_now` ends when nothing is left to read; one with an
    interval continues. `once` makes all streams end, `every` (seconds) makes all continue. `begin`
    is the start of streams without a checkpoint.

    A stream with a wrong contract does not run, and makes the exit code 2. Raises UserError if no
    contract is right, or for a wrong folder, before any stream starts.
    """
    check_port(metrics_port, "--metrics-port")
    project.enter()
    os.chdir(project.root)
    contracts, refused = load_contracts(project, select, exclude)
    for problem in refused:
        print(f"headwaters: {problem}", file=sys.stderr, flush=True)
    trigger = "available_now" if once else every
    code = run(project, contracts, trigger=trigger, metrics_port=metrics_port, begin=begin)
    return 2 if refused and code <= 1 else code


def run(
    project: Project,
    contracts: Sequence[Contract],
    spark: SparkSession | None = None,
    trigger: str | float | None = None,
    metrics_port: int | None = None,
    begin: From | None = None,
) -> int:
    """Run streams; return 0, 1 if one failed, 130 or 143 after a signal interrupted them.

    An error of the user in a stream makes it 2.

    An endless stream restarts after a failure, in 1, 2, 4 … 60 seconds, and succeeds if a signal
    ends it. `trigger` overrides the contracts.

    A given `spark` stays running. Otherwise this starts Spark if any stream has work, and stops it.
    """
    project.enter()
    streams = [Stream.of(project, contract) for contract in contracts]
    for stream in streams:
        stream.trigger = stream.contract.stream.trigger if trigger is None else trigger
        if begin == "recreated":
            known = source_of(stream).recreatable and stream.checkpoint.exists
            stream.begin = begin if known else None
        else:
            stream.begin = None if stream.checkpoint.exists else begin
    if begin == "recreated" and not any(stream.begin for stream in streams):
        raise UserError(
            "HW_RESUME",
            "--from recreated is for a stream of Kafka or Delta with a checkpoint, and none of "
            "these is one: choose with --select",
        )
    if begin and not any(stream.begin for stream in streams):
        raise UserError(
            "HW_RESUME",
            f"--from {begin} is for a stream without a checkpoint, and each of these has one: they "
            "resume from there",
        )
    with contextlib.ExitStack() as held, Stopping() as stopping, Display(streams) as display:
        busy = [stream for stream in streams if _has_work(stream, held)]
        if busy:
            with contextlib.ExitStack() as started:
                if metrics_port is not None:
                    started.enter_context(serve(streams, metrics_port))
                if spark is None:
                    with display.waiting("starting Spark"):
                        spark = start_spark(project)
                    started.callback(stop, spark)
                stopping.take_signals()
                if not any(stream.endless for stream in busy):
                    names = ", ".join(stream.contract.name for stream in busy)
                    started.enter_context(display.waiting(f"reading {names}"))
                _run(spark, busy, stopping, display)
    display.summary(streams)
    if stopping.signal and not all(stream.endless for stream in busy):
        return 128 + stopping.signal
    return max((stream.exit_code for stream in streams if stream.error), default=0)


def _has_work(stream: Stream, held: contextlib.ExitStack) -> bool:
    """Return true if this process holds the stream and it has work. An error affects it alone."""
    try:
        stream.take()
        held.callback(stream.release)
    except CodedError as error:
        # the holder of the stream writes error.txt
        stream.error, stream.exit_code = str(error), exit_code(error)
        return False
    except OSError as error:
        stream.error = f"{error.filename or stream.checkpoint.path}: {error.strerror}"
        return False
    try:
        stream.checkpoint.replace()
        refresh_backlog(stream)
        if stream.endless or stream.begin == "recreated" or not stream.idle:
            return True
        stream.keep_error()
        return False
    except WorkError as error:
        _failed(stream, error)
        return stream.endless


def _run(
    spark: SparkSession, streams: Sequence[Stream], stopping: Stopping, display: Display
) -> None:
    for stream in streams:
        if not stopping.signal:
            _begin(spark, stream, stopping)
    look_at = time.monotonic() + LOOK_EVERY
    while any(_working(stream, stopping) for stream in streams):
        for stream in streams:
            if stream.query is None:
                if stream.endless and not stopping.signal and time.monotonic() >= stream.retry_at:
                    _begin(spark, stream, stopping)
            elif not stream.query.isActive:
                _ended(spark, stream, stopping)
            elif stream.hold is not None and stream.hold.is_lost:
                stream.query.stop()  # another process may write its batches by now
                stream.query = None
                _failed(stream, lost(stream.checkpoint.path))
            elif not stream.well and _has_looked(stream.query):
                stream.well = True
                stream.recovered()
            elif stopping.signal and not stream.query.status["isTriggerActive"]:
                # the current batch ends first; the next would stop the query itself
                stream.query.stop()
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + LOOK_EVERY
            for stream in streams:
                with contextlib.suppress(CodedError, OSError):
                    refresh_backlog(stream)
        display.refresh()
        time.sleep(0.1)


LOOK_EVERY = 15.0  # seconds between reads of the backlog
MOST_FOLLOWED = 1000  # changes of a source's columns in one run


def _has_looked(query: StreamingQuery) -> bool:
    """Return true if a query has completed a trigger, with a batch or without."""
    return bool(query.lastProgress) or str(query.status["message"]).startswith("Waiting")


def _working(stream: Stream, stopping: Stopping) -> bool:
    """Return true if a stream runs, or will restart."""
    return stream.query is not None or (stream.endless and not stopping.signal)


def _begin(spark: SparkSession, stream: Stream, stopping: Stopping) -> None:
    stream.well = False
    try:
        if stream.hold is not None and stream.hold.is_lost:
            stream.take()
        guards.prepare(spark, stream)
        _finish_cut_short(spark, stream, stopping)
        stream.checkpoint.keep_contract(stream.contract)
        if stream.contract.stream.format == "csv":
            fields = [column.field for column in stream.contract.read_columns]
            stream.checkpoint.keep_fields(stream.contract.version, fields)
        if not source_of(stream).has_begun(spark):
            stream.recovered()
            stream.retry_at = time.monotonic() + LOOK_EVERY
            return
        stream.query = _start(spark, stream, stream.contract, stopping)
    except ConnectionError as error:
        if java_ended():  # Java has ended: streams cannot restart
            raise
        _failed(stream, error)
    except Exception as error:
        _failed(stream, error)


def _ended(spark: SparkSession, stream: Stream, stopping: Stopping) -> None:
    assert stream.query
    failure = stream.query.exception()
    stream.query = None
    follows = failure and SCHEMA_FOLLOWED in conditions(failure) and stream.followed < MOST_FOLLOWED
    if follows and not stopping.signal:
        # Delta has stored the source's new columns, and asks for a restart
        stream.followed += 1
        _begin(spark, stream, stopping)
        return
    if failure and not isinstance(stream.cause, StopAsked):
        _failed(stream, _recreated(stream) or stream.cause or failure)
    elif stream.error is None:
        stream.keep_error()


def _recreated(stream: Stream) -> SourceReplaced | None:
    """Return the error of a recreated source, which Spark may report only as missing offsets."""
    try:
        source_of(stream).check_identity()
    except SourceReplaced as error:
        return error
    except CodedError:
        pass
    return None


def _failed(stream: Stream, error: Exception) -> None:
    shown = coded(stream, error)
    stream.error, stream.exit_code = str(shown), exit_code(shown)
    stream.cause = None
    stream.keep_error()
    stream.retry_at = time.monotonic() + min(2.0**stream.failures, 60.0)
    stream.failures += 1
    stream.log(failed=stream.error)


def _finish_cut_short(spark: SparkSession, stream: Stream, stopping: Stopping) -> None:
    """Complete a partially written batch with the contract with which it began.

    With another contract, a record could end up in both tables, or in neither. Only keys for access
    to the source may have changed.
    """
    checkpoint, before = stream.checkpoint, stream.checkpoint.contract(Contract)
    if not checkpoint.unfinished or before is None or before == stream.contract:
        return
    if TableSnapshot(spark, stream.bronze).batches.get(checkpoint.app_id, -1) < checkpoint.planned:
        return
    now = stream.contract
    reached = {key: getattr(now.stream, key) for key in now.source.reached_by}
    before = before.model_copy(update={"stream": before.stream.model_copy(update=reached)})
    _start(spark, stream, before, stopping, finish=True).awaitTermination()


def _start(
    spark: SparkSession,
    stream: Stream,
    contract: Contract,
    stopping: Stopping,
    finish: bool = False,
) -> StreamingQuery:
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", contract.name)
    writer = Writer(stream, contract, stopping)
    query = (
        source_of(stream, contract)
        .read(spark)
        .writeStream.queryName(contract.name)
        .option("checkpointLocation", str(stream.checkpoint.path))
        .foreachBatch(writer.write)
    )
    # `once` runs only the interrupted batch
    if finish:
        return query.trigger(once=True).start()
    if not stream.endless:
        return query.trigger(availableNow=True).start()
    return query.trigger(processingTime=f"{stream.trigger} seconds").start()
