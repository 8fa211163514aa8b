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
from headwaters.errors import WorkError
from headwaters.ingest import Stream, start_spark
from headwaters.project import Project
from headwaters.sources import ANY_NAME
from headwaters.unreadable import IS_FILE


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
) -> dict[str, list[Balance] | WorkError]:
    """The balances of each stream by name, or why it has none. Starts Spark unless it is given."""
    given = spark
    spark = given or start_spark(project)
    try:
        return {contract.name: _balance(spark, project, contract) for contract in contracts}
    finally:
        if given is None:
            spark.stop()


def _balance(spark: Any, project: Project, contract: Contract) -> list[Balance] | WorkError:
    try:
        return balance(spark, Stream.of(project, contract))
    except WorkError as error:
        return error


def right(found: Sequence[Balance] | WorkError) -> bool:
    """Whether an account could be made, and every record is in it once."""
    return not isinstance(found, WorkError) and all(balance.right for balance in found)


def balance(spark: Any, stream: Stream) -> list[Balance]:
    """The balances of one stream: nothing before its first batch."""
    if stream.checkpoint.committed < 0:
        return []
    accounts = {
        "files": _files,
        "kafka": _kafka,
        "delta": _delta,
        "delta_changes": _delta_changes,
        "rate": _rate,
    }
    return accounts[stream.contract.stream.source](spark, stream)


def summarise(name: str, balances: Sequence[Balance] | WorkError) -> list[str]:
    """One line for a stream, and one for each unit that is wrong."""
    if isinstance(balances, WorkError):
        return [f"{name}: FAILED: {str(balances).removeprefix(f'{name}: ')}"]
    read, bronze, quarantine, missing, twice = (
        sum(getattr(b, key) for b in balances)
        for key in ("read", "bronze", "quarantine", "missing", "twice")
    )
    verdict = "right" if right(balances) else f"WRONG: {missing:,} missing, {twice:,} twice"
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
    held = kafka.ranges(stream.servers, declared.topics, stream.client)
    ends = checkpoint.offsets(checkpoint.committed)
    # where a stream went on after its checkpoint was lost, what it had read before counts as well
    before = checkpoint.begun().get("first", {})
    known = {topic: {int(p): at for p, at in parts.items()} for topic, parts in before.items()}
    begun = checkpoint.start() | known
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
        **stream.java_client,
    }
    keys = ["_topic", "_partition", "_offset", "_timestamp"]
    source = spark.read.format("kafka").options(**options).load()
    sent = source.select(
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.lit(1).alias("_sent"),
    )
    limits = spark.createDataFrame(
        [(t, p, first[t, p], end) for t, p, _, end, _ in spans],
        "_topic string, _partition int, _first bigint, _end bigint",
    )
    inside = _rows(spark, stream, keys).join(F.broadcast(limits), ["_topic", "_partition"])
    inside = inside.where("_offset >= _first and _offset < _end")
    rows = inside.groupBy(*keys).agg(F.count("*").alias("_rows"), F.sum("_bronze").alias("_bronze"))
    # of a topic that was recreated, the tables keep what they have of the one before
    before_it = F.col("_sent").isNull() & F.col("_topic").isin(
        checkpoint.begun().get("recreated", [])
    )
    found = (
        sent.join(rows, keys, "full")
        .where(~before_it)
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

    checkpoint, declared, form = stream.checkpoint, stream.contract.stream, stream.contract.form
    prefix = f"file://{stream.lake}/"
    taken = {path.removeprefix(prefix) for path in checkpoint.seen(checkpoint.committed)}
    if checkpoint.begun().get("from") == "latest":
        taken -= set(checkpoint.begun()["files"])
    quarantine = spark.read.format("delta").load(str(stream.quarantine)).where(IS_FILE)
    whole = {row[0] for row in quarantine.select("_source_file").collect()}
    present = sorted(path for path in taken - whole if (stream.lake / path).is_file())
    read: dict[str, int] = dict.fromkeys(present, 0)
    if present:
        paths = [f"file://{stream.lake}/{path}" for path in present]
        if form in ("columns", "raw"):
            format_ = "binaryFile" if form == "raw" else declared.format
            source = spark.read.format(format_).options(**ANY_NAME).load(paths)
        else:
            source = spark.read.options(**ANY_NAME).text(paths).where(F.trim("value") != "")
        header = int(form == "csv" and declared.options.get("header", "true") == "true")
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
    read |= dict.fromkeys(whole & taken, 1)  # a file that could not be read counts as one record
    for path in sorted(read):
        bronze, bad = counts.get(path, (0, 0))
        over = bronze + bad - read[path]
        balances.append(Balance(path, read[path], bronze, bad, max(-over, 0), max(over, 0)))
    return balances


def _delta(spark: Any, stream: Stream) -> list[Balance]:
    """All rows that the source had gained when it was last read; its rows do not say their version.

    Raises WorkError where rows were changed or deleted since: what was read is then nowhere to see.
    """
    end = _whole_versions(stream) - 1
    source = _source(stream)
    history = spark.sql(f"describe history delta.`{source}`").where(f"version <= {end}")
    changed = history.where("operation in ('UPDATE', 'DELETE', 'MERGE', 'RESTORE')").limit(1)
    if stream.start != "earliest" or changed.count():
        raise WorkError(
            f"{stream.contract.name}: what was read cannot be proven: {source} was changed beyond "
            "appends, or was not read from its beginning"
        )
    read = spark.read.format("delta").option("versionAsOf", end).load(source).count()
    (bronze, quarantine) = (
        spark.read.format("delta").load(str(table)).count()
        for table in (stream.bronze, stream.quarantine)
    )
    over = bronze + quarantine - read
    return [Balance(source, read, bronze, quarantine, max(-over, 0), max(over, 0))]


def _delta_changes(spark: Any, stream: Stream) -> list[Balance]:
    """The changes of each version; the first may be the whole table, as it was then."""
    from pyspark.sql import functions as F

    end, source = _whole_versions(stream) - 1, _source(stream)
    rows = _rows(spark, stream, ["_source_version"]).groupBy("_source_version")
    counts = {
        row[0]: (row[1], row[2])
        for row in rows.agg(F.sum("_bronze"), F.sum(1 - F.col("_bronze"))).collect()
    }
    first = min(counts, default=end + 1)
    read: dict[int, int] = {}
    if stream.start == "earliest" and counts:
        whole = spark.read.format("delta").option("versionAsOf", first)
        read[first] = whole.load(source).count()
        first += 1
    if first <= end:
        feed = {"readChangeFeed": "true", "startingVersion": first, "endingVersion": end}
        changes = spark.read.format("delta").options(**feed).load(source)
        read |= {row[0]: row[1] for row in changes.groupBy("_commit_version").count().collect()}
    balances = []
    for version in sorted({*read, *counts}):
        bronze, quarantine = counts.get(version, (0, 0))
        number = read.get(version, 0)
        over = bronze + quarantine - number
        name = f"version {version}"
        balances.append(Balance(name, number, bronze, quarantine, max(-over, 0), max(over, 0)))
    return balances


def _rate(spark: Any, stream: Stream) -> list[Balance]:
    """The numbers from 0 on, of which the source makes some every second."""
    from pyspark.sql import functions as F

    read = stream.checkpoint.rate_seconds() * stream.contract.stream.rows_per_second
    found = _rows(spark, stream, ["_offset"]).where(F.col("_offset") < read)
    total, bronze, different = found.agg(
        F.count("*"), F.coalesce(F.sum("_bronze"), F.lit(0)), F.count_distinct("_offset")
    ).first()
    return [Balance("rate", read, bronze, total - bronze, read - different, total - different)]


def _source(stream: Stream) -> str:
    path = str(stream.contract.stream.path)
    return path if "://" in path else str(stream.path)


def _whole_versions(stream: Stream) -> int:
    """The first version that was not read.

    Raises WorkError while a version was read only in part, because batches are small.
    """
    found = stream.checkpoint.delta_position()
    if found is None or not found[1]:
        raise WorkError(
            f"{stream.contract.name}: a version of its source was read only in part: run "
            "headwaters ingest until nothing is left"
        )
    return found[0]


def _uri(path: str) -> str:
    """One form for `file:/a b`, `file:///a%20b` and `/a b`."""
    return quote(unquote(path.removeprefix("file:")).replace("///", "/"))
