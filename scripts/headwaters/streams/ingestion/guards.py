"""The checks before a batch: contract, tables and checkpoint of a stream must agree."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwaters.platform.errors import UserError, WorkError
from headwaters.platform.sql import ended
from headwaters.streams.contract import Contract
from headwaters.streams.formats.debezium import enveloped
from headwaters.streams.ingestion.inputs import source_of
from headwaters.streams.sources.base import Source
from headwaters.streams.stream import From, Stream
from headwaters.tables.delta_tables import TableSnapshot


def prepare(spark: SparkSession, stream: Stream) -> None:
    """Create the tables, and check that they match the checkpoint."""
    contract, source = stream.contract, source_of(stream)
    _see_same_source(stream)
    _check_expressions(spark, contract)
    bronze, quarantine = (
        TableSnapshot(spark, stream.bronze),
        TableSnapshot(spark, stream.quarantine),
    )
    bronze.make(contract.bronze_columns(), contract.bronze_properties())
    quarantine.make(contract.quarantine_columns(), contract.quarantine_properties())
    if stream.begin == "recreated":
        source.decide_recreated(spark)
        stream.checkpoint.replace()
        stream.begin = None
    source.keep_identity()
    if stream.begin:
        _decide(spark, source, stream.begin)
        stream.begin = None  # a restarted stream resumes with this decision
    _see_checkpoint(stream, bronze, quarantine)
    latest = contract.stream.start == "latest" and source.keeps_latest
    if latest and stream.checkpoint.planned < 0 and not stream.checkpoint.begun():
        _decide(spark, source, "latest")
    see_same_batches(stream, bronze.batches, quarantine.batches)


def _decide(spark: SparkSession, source: Source, begin: From) -> None:
    """Store the start of a new checkpoint's first batch, which also survives a crash.

    `table` reads again from the last batch of bronze, because its part of quarantine may be
    missing, and leaves out the rows of both tables.
    """
    source.stream.checkpoint.keep_begun({"from": begin} | source.resume_note(spark, begin))


def _see_same_source(stream: Stream) -> None:
    contract, before = stream.contract, stream.checkpoint.contract(Contract)
    if before is not None and before.stream.source != contract.stream.source:
        raise WorkError(
            "HW_OTHER_SOURCE",
            f"{contract.full_name} has been read from {before.stream.source} so far, and "
            f"{contract.file} now says {contract.stream.source}: use a lake of its own "
            f"(HEADWATERS_LAKE), or remove {stream.checkpoint.path} and both tables to start again",
        )


def _see_checkpoint(stream: Stream, bronze: TableSnapshot, quarantine: TableSnapshot) -> None:
    """Raise WorkError if the tables have rows but the read position is lost."""
    contract = stream.contract
    new = stream.checkpoint.id is None and not stream.checkpoint.begun()
    if new and (bronze.batches or any(table.size.files for table in (bronze, quarantine))):
        raise WorkError(
            "HW_CHECKPOINT_MISSING",
            f"{contract.full_name} has data, but its checkpoint {stream.checkpoint.path} is "
            f"missing. Put it back, or say where to resume: headwaters ingest --select "
            f"{contract.name} --from table (after what bronze and quarantine hold), --from latest "
            "(with what comes from now on) or --from earliest (everything again, also what is in "
            "the table)",
        )


def see_same_batches(
    stream: Stream, bronze: Mapping[str, int], quarantine: Mapping[str, int]
) -> None:
    """Raise WorkError if checkpoint and tables are of different times: one was restored.

    Every batch leaves its number in bronze. Bronze is therefore never behind the checkpoint's
    committed batch, nor ahead of its planned one.
    """
    checkpoint, table = stream.checkpoint, stream.contract.full_name
    remedy = (
        f"remove {checkpoint.path} and say where to resume: headwaters ingest --select "
        f"{stream.contract.name} --from table (after what bronze and quarantine hold)"
    )
    written = bronze.get(checkpoint.app_id, -1)
    if written < checkpoint.committed:
        raise WorkError(
            "HW_CHECKPOINT_DIFFERS",
            f"the checkpoint {checkpoint.path} has read {checkpoint.committed - written} batches "
            f"that {table} never saw: going on would leave them out. Put the newer table back, or "
            + remedy,
        )
    newest = max(written, quarantine.get(checkpoint.app_id, -1))
    if newest > checkpoint.planned:
        raise WorkError(
            "HW_CHECKPOINT_DIFFERS",
            f"{table} has {newest - checkpoint.planned} batches that its checkpoint "
            f"{checkpoint.path} does not know, an older copy: going on would leave out what comes "
            "next. Put the newer checkpoint back, or " + remedy,
        )


def _check_expressions(spark: SparkSession, contract: Contract) -> None:
    """Raise UserError for a computed column or a check that Spark cannot parse."""

    def understood(frame: DataFrame, what: str, expression: str) -> DataFrame:
        try:
            return frame.selectExpr("*", f"({ended(expression)}) as `{what}`")
        except PySparkException as error:
            reason = str(error).splitlines()[0]
            raise UserError(
                "HW_CONTRACT_EXPRESSION",
                f"{contract.file}: {contract.name}.{what}: expression {expression}: {reason}",
            ) from None

    contract = enveloped(contract)
    names = [(c.name, c.data_type) for c in contract.read_columns]
    names += contract.source.origin  # a computed column may read a record's time or key
    types = ", ".join(f"`{name}` {kind}" for name, kind in names)
    frame = spark.createDataFrame([], types)
    for column in contract.computed_columns:
        frame = understood(frame, column.name, str(column.expression))
    for column in contract.columns:
        for rule in column.constraints:
            if rule.expression:
                understood(frame, f"{column.name}:check", rule.expression)
