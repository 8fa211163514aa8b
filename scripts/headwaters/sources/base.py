"""Where the records of a stream come from: what is there to read, and how Spark reads it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwaters.contract import Contract, StartAt
from headwaters.delta_log import appended, snapshot
from headwaters.errors import UserError, WorkError
from headwaters.ingestion.checkpoint import Pending
from headwaters.sources import kafka_client as kafka

if TYPE_CHECKING:
    from headwaters.ingestion.run import Stream


# Hadoop's usual file system looks for a checksum beside a file, by a name that it cannot make where
# the file's has a colon. It is kept from the cache, where it would stand for all others.
ANY_NAME = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def look(stream: Stream) -> None:
    """See what a stream has not yet read, from its checkpoint and its source; costs no Spark.

    Raises UserError for a folder or table that is not there, WorkError for a broker or topic.
    """
    declared, checkpoint = stream.contract.stream, stream.checkpoint
    if declared.source == "kafka":
        ends = kafka.ranges(stream.servers, declared.topics, stream.client)
        if stream.begin != "recreated":
            topic_ids(stream)
        stream.pending = checkpoint.behind(ends)
    elif declared.source == "files":
        if not stream.path.is_dir():
            raise _nothing_at(stream, "folder", "land files there")
        stream.pending = checkpoint.pending(stream.path)
    elif declared.source == "rate" or _remote(stream):
        stream.pending = None  # it has no end, or only Spark can reach it
    else:
        found = snapshot(stream.path)
        if found is None:
            raise _nothing_at(stream, "Delta table", "write it first")
        position, begun = checkpoint.delta_position(), checkpoint.begun().get("version")
        if position is None and begun is not None:
            position = begun + 1, True
        since = 0 if position is None else position[0]
        all_ = (found.files, found.bytes)
        number, size = all_ if position is None else appended(stream.path, since)
        # a commit that adds no file (a delete) is to be read as well
        unread = since <= found.version
        stream.pending = Pending(number or int(unread), "files", size, checkpoint.unfinished)


class TopicRecreated(WorkError):
    """A topic is not the one that was read so far: its offsets are other records."""


def topic_ids(stream: Stream) -> dict[str, str]:
    """The identity of each topic of a stream. Raises TopicRecreated where one is another."""
    found = identities(stream)
    if new := recreated(stream, found):
        name = stream.contract.name
        raise TopicRecreated(
            f"the topic {', '.join(new)} was deleted and created again since {name} last read it, "
            f"and its offsets began at 0 again: run headwaters ingest --select {name} --from "
            "recreated, which reads the new topic from its beginning and leaves out what bronze "
            "and quarantine hold of it"
        )
    return found


def identities(stream: Stream) -> dict[str, str]:
    """The identity of each topic of a stream, whether it is the one that was read so far or not."""
    declared = stream.contract.stream
    return kafka.identities(stream.servers, declared.topics, stream.client)


def recreated(stream: Stream, found: Mapping[str, str]) -> list[str]:
    """The topics that have another identity than the ones that were read so far."""
    known = stream.checkpoint.topics()
    return [topic for topic in found if known.get(topic, found[topic]) != found[topic]]


def latest_version(spark: Any, stream: Stream) -> int:
    """The newest version of a Delta source."""
    path = stream.contract.stream.path if _remote(stream) else stream.path
    newest = spark.sql(f"describe history delta.`{path}` limit 1").first()
    return int(newest["version"])


def begins(spark: Any, stream: Stream) -> bool:
    """Whether there is a first version to read: Delta can begin at none that is yet to come."""
    begun: int | None = stream.checkpoint.begun().get("version")
    if begun is None or stream.checkpoint.planned >= 0:
        return True
    return latest_version(spark, stream) > begun


def _remote(stream: Stream) -> bool:
    return "://" in str(stream.contract.stream.path)


def _nothing_at(stream: Stream, what: str, todo: str) -> UserError:
    contract = stream.contract
    return UserError(
        f"{contract.file}: {contract.name} reads {contract.stream.path}, but there is no {what} "
        f"{stream.path}: {todo}, or change 'path'"
    )


def read(spark: Any, stream: Stream, contract: Contract) -> Any:
    """The source as a streaming DataFrame; `records` says what a batch of it holds."""
    readers = {
        "files": _read_files,
        "kafka": _read_kafka,
        "delta": _read_delta,
        "delta_changes": _read_delta,
        "rate": _read_rate,
    }
    return readers[contract.stream.source](spark, stream, contract)


def records(
    spark: Any,
    stream: Stream,
    contract: Contract,
    batch: Any,
    number: int,
    without: Collection[str] = (),
) -> list[Any]:
    """The records of a batch, in the form that `records.parse` takes: one frame for each schema.

    Files that bring a schema along are read here, by name: a stream keeps one schema for as long as
    it runs, and a file that lands meanwhile may have another. So are all files where the batch is
    to be read `without` some.
    """
    by_name = contract.form in ("columns", "raw") or without
    if contract.stream.source != "files" or not by_name:
        return [batch]
    files = [file for file in stream.checkpoint.taken(number) if file not in without]
    return read_by_name(spark, stream, contract, files) if files else []


def read_by_name(spark: Any, stream: Stream, contract: Contract, files: Sequence[str]) -> list[Any]:
    """The records of some files, given as unquoted URIs: one frame for each schema."""
    options = ANY_NAME | contract.stream.options
    # a name is not a pattern
    paths = [re.sub(r"([\\\[\]{}*?])", r"\\\1", file) for file in files]
    if contract.form in ("csv", "json"):
        return [_lines(spark.read.option("recursiveFileLookup", "true"), stream, contract, paths)]
    if contract.form == "raw":
        found = (
            spark.read.format("binaryFile")
            .options(**ANY_NAME)
            .load(paths)
            .withColumnRenamed("content", "value")
        )
        return [_with_source_file(found, ["value"], stream.lake)]
    read = _read_by_schema(spark, str(contract.stream.format), options, paths)
    frames = [beside_lineage(frame, contract) for frame in read]
    return [_with_source_file(frame, frame.columns, stream.lake) for frame in frames]


def _read_by_schema(
    spark: Any, format_: str, options: Mapping[str, str], paths: Sequence[str]
) -> list[Any]:
    """Files, together where one schema holds for all of them, else those of each schema."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    reader = spark.read.format(format_).options(**options)
    if format_ == "parquet":  # Avro would be read with the schema of the first file
        merging = spark.read.format(format_).options(**{"mergeSchema": "true", **options})
        with contextlib.suppress(PySparkException, Py4JJavaError):  # types that differ
            return [merging.load(same) for same in _by_spelling(paths)]
    by_schema: dict[str, list[str]] = {}
    for path in paths:
        by_schema.setdefault(reader.load(path).schema.json(), []).append(path)
    return [reader.load(same) for same in by_schema.values()]


def _by_spelling(paths: Sequence[str]) -> list[list[str]]:
    """Parquet files, together unless they write the name of a column in other letters.

    Spark would give all of them the letters of one, and `_rescued` would say what no file says.
    """
    from pyarrow import ArrowException, parquet

    names: dict[str, list[str]] = {}
    for path in paths:
        file = re.sub(r"\\(.)", r"\1", path.removeprefix("file://"))
        try:
            names[path] = parquet.read_schema(file).names
        except (ArrowException, OSError):
            names[path] = []  # Spark says what is wrong with it
    spellings: dict[str, set[str]] = {}
    for name in (name for found in names.values() for name in found):
        spellings.setdefault(name.lower(), set()).add(name)
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, found in names.items():
        several = sorted(name for name in found if len(spellings[name.lower()]) > 1)
        groups.setdefault(tuple(several), []).append(path)
    return list(groups.values())


def _read_files(spark: Any, stream: Stream, contract: Contract) -> Any:
    batch = contract.stream.batch
    # Spark leaves out files that are a week older than the newest one; a late file must not be
    # lost, nor any beside one whose time is in the future. This is longer than all that files have.
    options = {"recursiveFileLookup": "true", "maxFileAge": "100000000d"}
    if batch.max_files:
        options["maxFilesPerTrigger"] = str(batch.max_files)
    if batch.max_bytes:
        options["maxBytesPerTrigger"] = str(batch.max_bytes)
    return _lines(spark.readStream.options(**options), stream, contract, f"file://{stream.path}")


def _lines(reader: Any, stream: Stream, contract: Contract, paths: str | Sequence[str]) -> Any:
    """Lines of text or rows of CSV, from a reader of files or of a stream."""
    from pyspark.sql import functions as F

    from headwaters.formats.base import csv_options, read_schema

    reader = reader.options(**ANY_NAME)
    if contract.form == "csv":
        raw = reader.options(**csv_options(contract)).csv(paths, schema=read_schema(contract))
        return _with_source_file(raw, raw.columns, stream.lake)
    # of files that `records` reads, Spark only keeps the list
    raw = reader.text(paths).where(F.trim("value") != "")
    return _with_source_file(raw, ["value"], stream.lake)


def beside_lineage(frame: Any, contract: Contract) -> Any:
    """A source's own columns; one that is called like a column of the lineage gets a `_` more."""
    from headwaters.formats.base import PLACE

    taken = {*contract.origin, PLACE}
    return frame.withColumnsRenamed({n: f"{n}_" for n in frame.columns if n.lower() in taken})


def _with_source_file(frame: Any, columns: Sequence[str], lake: Path) -> Any:
    """Some columns, and the file of each record: inside the lake relative to it, as it may move."""
    from pyspark.sql import functions as F

    path = F.col("_metadata.file_path")
    decoded = F.url_decode(F.replace(path, F.lit("+"), F.lit("%2B")))
    path = F.when(path.contains("%"), decoded).otherwise(path)
    for prefix in (f"file://{lake}/", f"file:{lake}/"):
        path = F.replace(path, F.lit(prefix), F.lit(""))
    return frame.select(*[F.col(f"`{name}`") for name in columns], path.alias("_source_file"))


def _read_kafka(spark: Any, stream: Stream, contract: Contract) -> Any:
    from pyspark.sql import functions as F

    declared, batch = contract.stream, contract.stream.batch
    options = {
        "kafka.bootstrap.servers": stream.servers,
        "subscribe": ",".join(declared.topics),
        "includeHeaders": "true",
        "failOnDataLoss": str(declared.data_loss == "fail").lower(),
        **stream.java_client,
        **_kafka_start(stream),
    }
    if batch.max_records:
        options["maxOffsetsPerTrigger"] = str(batch.max_records)
    # a run that ends when nothing is left would otherwise leave the last records
    if batch.min_records and stream.endless:
        options["minOffsetsPerTrigger"] = str(batch.min_records)
        options["maxTriggerDelay"] = f"{int((batch.max_delay or 30) * 1000)}ms"
    raw = spark.readStream.format("kafka").options(**options).load()
    value = F.col("value").cast("string") if contract.form == "json" else F.col("value")
    return raw.select(
        value.alias("value"),
        *[F.col(name.removeprefix("_")).alias(name) for name in contract.origin],
    )


def _kafka_start(stream: Stream) -> dict[str, str]:
    start, declared = stream.start, stream.contract.stream
    named = stream.checkpoint.begun().get("offsets")
    if named is None and isinstance(start, StartAt) and start.offsets is not None:
        named = {t: {str(p): at for p, at in parts.items()} for t, parts in start.offsets.items()}
    if named is not None:  # Spark wants all partitions: the others are read from their beginning
        ends = kafka.ranges(stream.servers, declared.topics, stream.client)
        offsets = {t: {p: named.get(t, {}).get(str(p), -2) for p in ends[t]} for t in ends}
        return {"startingOffsets": json.dumps(offsets)}
    if isinstance(start, str):
        return {"startingOffsets": start}
    return {
        "startingTimestamp": str(int(_utc(start).timestamp() * 1000)),
        "startingOffsetsByTimestampStrategy": "latest",
    }


def _utc(start: StartAt) -> datetime:
    assert start.timestamp
    return start.timestamp if start.timestamp.tzinfo else start.timestamp.replace(tzinfo=UTC)


def _read_delta(spark: Any, stream: Stream, contract: Contract) -> Any:
    declared, batch = contract.stream, contract.stream.batch
    options: dict[str, str] = {}
    if batch.max_files:
        options["maxFilesPerTrigger"] = str(batch.max_files)
    if batch.max_bytes:
        options["maxBytesPerTrigger"] = str(batch.max_bytes)
    begun = stream.checkpoint.begun().get("version")
    if begun is not None:
        options["startingVersion"] = str(begun + 1)
    elif stream.start == "latest":  # of a checkpoint that was begun before this was written down
        options["startingVersion"] = "latest"
    elif isinstance(stream.start, StartAt) and stream.start.version is not None:
        options["startingVersion"] = str(stream.start.version)
    elif isinstance(stream.start, StartAt):
        options["startingTimestamp"] = f"{_utc(stream.start):%Y-%m-%d %H:%M:%S.%f}"
    if declared.source == "delta_changes":
        options["readChangeFeed"] = "true"
    elif declared.on_change != "fail":
        name = {"skip": "skipChangeCommits", "ignore": "ignoreChanges"}[declared.on_change]
        options[name] = "true"
    path = str(declared.path) if _remote(stream) else str(stream.path)
    raw = beside_lineage(spark.readStream.format("delta").options(**options).load(path), contract)
    return raw if declared.source == "delta" else changes_with_lineage(raw, contract)


def changes_with_lineage(raw: Any, contract: Contract) -> Any:
    """Rows of a change feed, with what it says of each as columns of the lineage."""
    from pyspark.sql import functions as F

    feed = ("_change_type", "_commit_version", "_commit_timestamp")
    kept = [F.col(f"`{name}`") for name in raw.columns if name not in feed]
    lineage = zip(feed, contract.origin, strict=True)
    return raw.select(*kept, *[F.col(name).alias(ours) for name, ours in lineage])


def _read_rate(spark: Any, _: Stream, contract: Contract) -> Any:
    from pyspark.sql import functions as F

    per_second = contract.stream.rows_per_second
    raw = spark.readStream.format("rate").option("rowsPerSecond", per_second).load()
    declared = [column.name for column in contract.read_columns]
    return raw.select(*declared, F.col("value").alias("_offset"))
