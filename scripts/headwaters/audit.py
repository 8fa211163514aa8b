"""`headwaters audit`: input = bronze + quarantine, proven record by record.

A Kafka stream is compared with its broker offset by offset, a files stream with its files. Only
what the checkpoint has committed counts: the rows of a batch in flight are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from headwaters.contract import Contract
from headwaters.ingest import Stream, start_spark
from headwaters.project import Project


@dataclass(frozen=True)
class Balance:
    """The account of one partition of a topic, or of one file."""

    unit: str
    read: int
    bronze: int
    quarantine: int
    missing: int
    twice: int

    @property
    def right(self) -> bool:
        """Whether every record is in exactly one of the two tables, once."""
        return not self.missing and not self.twice


def audit(
    project: Project, contracts: Sequence[Contract], spark: Any = None
) -> dict[str, list[Balance]]:
    """The balances of each stream, by name. Starts Spark unless it is given."""
    given = spark
    spark = given or start_spark(project)
    try:
        return {
            contract.name: balance(spark, Stream.of(project, contract)) for contract in contracts
        }
    finally:
        if given is None:
            spark.stop()


def balance(spark: Any, stream: Stream) -> list[Balance]:
    """The balances of one stream: nothing before its first batch."""
    if stream.checkpoint.committed < 0:
        return []
    if stream.contract.stream.source == "kafka":
        return _kafka(spark, stream)
    return _files(spark, stream)


def summarise(name: str, balances: Sequence[Balance]) -> list[str]:
    """One line for a stream, and one for each unit that is wrong."""
    read, bronze, quarantine, missing, twice = (
        sum(getattr(b, key) for b in balances)
        for key in ("read", "bronze", "quarantine", "missing", "twice")
    )
    verdict = (
        "right"
        if all(b.right for b in balances)
        else f"WRONG: {missing:,} missing, {twice:,} twice"
    )
    lines = [f"{name}: {read:,} read = {bronze:,} bronze + {quarantine:,} quarantined: {verdict}"]
    lines += [
        f"  {b.unit}: {b.read:,} read, {b.bronze:,} bronze, {b.quarantine:,} quarantined, "
        f"{b.missing:,} missing, {b.twice:,} twice"
        for b in balances
        if not b.right
    ]
    return lines


def _rows(spark: Any, stream: Stream, keys: Sequence[str]) -> Any:
    """The keys of both tables' rows, with `_bronze` 1 or 0."""
    from pyspark.sql import functions as F

    bronze = spark.read.format("delta").load(str(stream.bronze))
    quarantine = spark.read.format("delta").load(str(stream.quarantine))
    return bronze.select(*keys, F.lit(1).alias("_bronze")).union(
        quarantine.select(*keys, F.lit(0).alias("_bronze"))
    )


def _kafka(spark: Any, stream: Stream) -> list[Balance]:
    from pyspark.sql import functions as F

    from headwaters import kafka

    checkpoint, declared = stream.checkpoint, stream.contract.stream
    held = kafka.ranges(stream.servers, declared.topics, declared.client)
    ends = checkpoint.offsets(checkpoint.committed)
    begun = checkpoint.start()
    spans = [
        (topic, partition, begun.get(topic, {}).get(partition, 0), end, held[topic][partition][0])
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
        if partition in held.get(topic, {})
    ]
    # What retention has deleted from the topic can no longer be compared.
    first = {(t, p): min(max(start, low), end) for t, p, start, end, low in spans}
    options = {
        "kafka.bootstrap.servers": stream.servers,
        "subscribe": ",".join(declared.topics),
        "startingOffsets": _json({key: at for key, at in first.items()}, held),
        "endingOffsets": _json({(t, p): end for t, p, _, end, _ in spans}, held),
        **{f"kafka.{key}": value for key, value in declared.client.items()},
    }
    keys = ["_topic", "_partition", "_offset"]
    source = spark.read.format("kafka").options(**options).load()
    sent = source.select(
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.lit(1).alias("_sent"),
    )
    limits = spark.createDataFrame(
        [(t, p, first[t, p], end) for t, p, _, end, _ in spans],
        "_topic string, _partition int, _first bigint, _end bigint",
    )
    inside = _rows(spark, stream, keys).join(F.broadcast(limits), ["_topic", "_partition"])
    inside = inside.where("_offset >= _first and _offset < _end")
    rows = inside.groupBy(*keys).agg(F.count("*").alias("_rows"), F.sum("_bronze").alias("_bronze"))
    found = (
        sent.join(rows, keys, "full")
        .groupBy("_topic", "_partition")
        .agg(
            F.count("_sent").alias("read"),
            F.coalesce(F.sum("_bronze"), F.lit(0)).alias("bronze"),
            F.coalesce(F.sum(F.col("_rows") - F.col("_bronze")), F.lit(0)).alias("quarantine"),
            F.count_if(F.col("_rows").isNull()).alias("missing"),
            F.coalesce(F.sum(F.col("_rows") - F.coalesce("_sent", F.lit(0))), F.lit(0)).alias(
                "twice"
            ),
        )
        .orderBy("_topic", "_partition")
    )
    return [
        Balance(
            f"{r[0]} partition {r[1]}",
            r["read"],
            r["bronze"],
            r["quarantine"],
            r["missing"],
            r["twice"],
        )
        for r in found.collect()
    ]


def _json(offsets: dict[tuple[str, int], int], held: dict[str, dict[int, tuple[int, int]]]) -> str:
    """Spark's form of offsets: every partition must be named, also one that is not read yet."""
    named: dict[str, dict[str, int]] = {
        topic: {str(p): offsets.get((topic, p), low) for p, (low, _) in partitions.items()}
        for topic, partitions in held.items()
    }
    return json.dumps(named)


def _files(spark: Any, stream: Stream) -> list[Balance]:
    from pyspark.sql import functions as F

    checkpoint, declared = stream.checkpoint, stream.contract.stream
    prefix = f"file://{stream.lake}/"
    taken = {path.removeprefix(prefix) for path in checkpoint.seen(checkpoint.committed)}
    present = sorted(path for path in taken if (stream.lake / path).is_file())
    read: dict[str, int] = dict.fromkeys(present, 0)
    if present:
        paths = [f"file://{stream.lake}/{path}" for path in present]
        if declared.format == "parquet":
            source = spark.read.option("mergeSchema", "true").parquet(*paths)
        else:
            source = spark.read.text(paths).where(F.trim("value") != "")
        header = int(declared.format == "csv" and declared.options.get("header", "true") == "true")
        counted = source.groupBy(F.col("_metadata.file_path").alias("path")).count().collect()
        by_uri = {_uri(f"{stream.lake}/{path}"): path for path in present}
        for row in counted:
            read[by_uri[_uri(row["path"])]] = row["count"] - header
    rows = _rows(spark, stream, ["_source_file"]).groupBy("_source_file")
    counts = {
        row[0]: (row[1], row[2])
        for row in rows.agg(F.sum("_bronze"), F.sum(1 - F.col("_bronze"))).collect()
    }
    balances = [
        Balance(f"{path} (never read)", 0, *both, 0, sum(both))
        for path, both in sorted(counts.items())
        if path not in taken
    ]
    for path in present:
        bronze, quarantine = counts.get(path, (0, 0))
        over = bronze + quarantine - read[path]
        balances.append(Balance(path, read[path], bronze, quarantine, max(-over, 0), max(over, 0)))
    return balances


def _uri(path: str) -> str:
    """One form for `file:/a b`, `file:///a%20b` and `/a b`."""
    return quote(unquote(path.removeprefix("file:")).replace("///", "/"))
