"""`headwaters audit`: reconciliation, input = bronze + quarantine, record by record.

Kafka is compared with its broker by topic, partition and offset, `rate` by its numbers: each is in
one of the two tables, once. Rows of files and Delta tables do not say where in them they were: what
is there is parsed again, and compared with the rows of both tables as a multiset, row by row in all
columns of the contract, by file and by version of a change feed. Only what the checkpoint has
committed counts: the tables are read as they were before a batch, or a replay, that is in flight.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from headwaters.contract import Contract
from headwaters.delta_log import first_after, version
from headwaters.errors import UserError, WorkError
from headwaters.ingestion.run import Stream, one_line, start_spark, widened
from headwaters.ingestion.unreadable import IS_FILE
from headwaters.project import Project
from headwaters.sources import kafka_client as kafka
from headwaters.sources.base import beside_lineage, changes_with_lineage, read_by_name


@dataclass(frozen=True)
class Balance:
    """The account of one partition of a topic, of one file, or of one version.

    `missing` counts records that are in neither table, `extra` rows that the source does not have,
    or has less often. Rows whose source is gone are `unproven`.
    """

    unit: str
    read: int
    bronze: int
    quarantine: int
    missing: int
    extra: int
    unproven: int = 0
    beside: tuple[str, ...] = ()  # columns that are not compared, since they were declared later

    @property
    def right(self) -> bool:
        """Whether every record is in exactly one of the two tables, once."""
        return not self.missing and not self.extra


@dataclass(frozen=True)
class Moment:
    """What a stream had committed, and the versions of its tables that hold just that."""

    committed: int
    bronze: int
    quarantine: int


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
    """The balances of one stream; whatever goes wrong with it is its own."""
    stream = Stream.of(project, contract)
    try:
        return balance(spark, stream)
    except (UserError, WorkError) as error:
        return WorkError(str(error))
    except Exception as error:
        return WorkError(one_line(stream, error))


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
    return accounts[stream.contract.stream.source](spark, stream, moment(stream))


def moment(stream: Stream) -> Moment:
    """A moment at which nothing was in flight, before what is in flight now.

    Nobody is asked to wait: tables and checkpoint are looked at until they stay the same meanwhile.
    Raises WorkError for a table that is not there, or a stream that never rests.
    """
    checkpoint = stream.checkpoint
    note = checkpoint.path / "replay.json"

    def look() -> tuple[int, int, int, str | None]:
        committed = checkpoint.committed
        tables = [version(table) for table in (stream.bronze, stream.quarantine)]
        for table, found in zip((stream.bronze, stream.quarantine), tables, strict=True):
            if found is None:
                raise WorkError(f"there is no table {table}: put it back")
        bronze, quarantine = (found for found in tables if found is not None)
        return committed, bronze, quarantine, note.read_text() if note.exists() else None

    for _ in range(1000):
        before = look()
        committed, bronze, quarantine, replay = before
        if replay is not None:
            noted = json.loads(replay)
            bronze, quarantine = noted["bronze"], noted["version"]
        later = [
            first_after(table, checkpoint.app_id, committed)
            for table in (stream.bronze, stream.quarantine)
        ]
        if look() == before:
            pinned = [
                at if after is None else min(at, after - 1)
                for at, after in zip((bronze, quarantine), later, strict=True)
            ]
            return Moment(committed, *pinned)
    raise WorkError("its tables change without a pause: try again")


def summarise(name: str, balances: Sequence[Balance] | WorkError) -> list[str]:
    """One line for a stream, and one for each unit that is wrong."""
    if isinstance(balances, WorkError):
        return [f"{name}: FAILED: {str(balances).removeprefix(f'{name}: ')}"]
    read, bronze, quarantine, missing, extra, unproven = (
        sum(getattr(b, key) for b in balances)
        for key in ("read", "bronze", "quarantine", "missing", "extra", "unproven")
    )
    verdict = "right" if right(balances) else f"WRONG: {missing:,} missing, {extra:,} extra"
    gone = f"; {unproven:,} rows of files that are gone are not compared" if unproven else ""
    if beside := ", ".join(dict.fromkeys(name for b in balances for name in b.beside)):
        gone += f"; {beside}: not compared where they were declared later"
    counts = f"{read:,} read = {bronze:,} bronze + {quarantine:,} quarantined"
    lines = [f"{name}: {counts}: {verdict}{gone}"]
    lines += [
        f"  {b.unit}: {b.read:,} read, {b.bronze:,} bronze, {b.quarantine:,} quarantined, "
        f"{b.missing:,} missing, {b.extra:,} extra"
        for b in balances
        if not b.right
    ]
    return lines


def _table(spark: Any, path: Path | str, at: int) -> Any:
    return spark.read.format("delta").option("versionAsOf", at).load(str(path))


def _rows(spark: Any, stream: Stream, now: Moment, keys: Sequence[str]) -> Any:
    """The keys of both tables' rows, with `_bronze` 1 or 0."""
    from pyspark.sql import functions as F

    bronze = _table(spark, stream.bronze, now.bronze)
    quarantine = _table(spark, stream.quarantine, now.quarantine)
    return bronze.select(*keys, F.lit(1).alias("_bronze")).union(
        quarantine.select(*keys, F.lit(0).alias("_bronze"))
    )


def _kafka(spark: Any, stream: Stream, now: Moment) -> list[Balance]:
    from pyspark.sql import functions as F

    checkpoint, declared = stream.checkpoint, stream.contract.stream
    held = kafka.ranges(stream.servers, declared.topics, stream.client)
    ends = checkpoint.offsets(now.committed)
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
    inside = _rows(spark, stream, now, keys).join(F.broadcast(limits), ["_topic", "_partition"])
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
                "extra"
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
            r["extra"],
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


def _files(spark: Any, stream: Stream, now: Moment) -> list[Balance]:
    from pyspark.sql import functions as F

    checkpoint = stream.checkpoint
    prefix = f"file://{stream.lake}/"
    taken = {path.removeprefix(prefix) for path in checkpoint.seen(now.committed)}
    if checkpoint.begun().get("from") == "latest":
        taken -= set(checkpoint.begun()["files"])
    quarantine = _table(spark, stream.quarantine, now.quarantine).where(IS_FILE)
    whole = {row[0] for row in quarantine.select("_source_file").collect()} & taken
    present = [path for path in sorted(taken - whole) if (stream.lake / path).is_file()]
    contract = widened(spark, stream.bronze, stream.contract)
    uris = [prefix + path for path in present]
    frames = read_by_name(spark, stream, contract, uris) if uris else []
    unit = F.col("_source_file")
    found = {b.unit: b for b in _compare(spark, stream, now, contract, frames, unit)}
    balances = []
    for path, one in found.items():
        if path not in taken:
            one = replace(one, unit=f"{path} (never read)")
        elif path in whole:  # a file that could not be read counts as one record
            one = replace(one, read=1, extra=one.extra - 1)
        elif path not in present:
            one = replace(one, extra=0, unproven=one.bronze + one.quarantine)
        balances.append(one)
    return balances


def _delta(spark: Any, stream: Stream, now: Moment) -> list[Balance]:
    """All rows that the source had gained when it was last read; its rows do not say their version.

    Raises WorkError where rows were changed or deleted since: what was read is then nowhere to see.
    """
    from pyspark.sql import functions as F

    end = _whole_versions(stream, now) - 1
    source = _source(stream)
    history = spark.sql(f"describe history delta.`{source}`").where(f"version <= {end}")
    changed = history.where("operation in ('UPDATE', 'DELETE', 'MERGE', 'RESTORE')").limit(1)
    if stream.start != "earliest" or changed.count():
        raise WorkError(
            f"{stream.contract.name}: what was read cannot be proven: {source} was changed beyond "
            "appends, or was not read from its beginning"
        )
    contract = widened(spark, stream.bronze, stream.contract)
    read = beside_lineage(_table(spark, source, end), contract)
    return _compare(spark, stream, now, contract, [read], F.lit(source))


def _delta_changes(spark: Any, stream: Stream, now: Moment) -> list[Balance]:
    """The changes of each version; the first may be the whole table, as it was then."""
    from pyspark.sql import functions as F

    end, source = _whole_versions(stream, now) - 1, _source(stream)
    contract = widened(spark, stream.bronze, stream.contract)
    unit = F.concat(F.lit("version "), F.col("_source_version"))
    rows = _rows(spark, stream, now, ["_source_version", "_source_timestamp"])
    first = rows.orderBy("_source_version").first()
    since = end + 1 if first is None else first["_source_version"]
    frames = []
    if stream.start == "earliest" and first is not None:
        whole = beside_lineage(_table(spark, source, since), contract)
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
        frames.append(changes_with_lineage(beside_lineage(changes, contract), contract))
    return _compare(spark, stream, now, contract, frames, unit)


def _compare(
    spark: Any, stream: Stream, now: Moment, contract: Contract, frames: Sequence[Any], unit: Any
) -> list[Balance]:
    """Each unit's records, parsed again, with the rows that the tables have of it."""
    from headwaters.formats.base import parse

    bronze = _table(spark, stream.bronze, now.bronze)
    quarantine = _table(spark, stream.quarantine, now.quarantine)
    parsed = [parse(contract, raw) for raw in frames]
    read = reduce(lambda a, b: a.unionByName(b), parsed) if parsed else None
    there = {name.lower() for name in bronze.columns}
    names = [column.name for column in contract.columns if column.name.lower() in there]
    names += ["_rescued"] if contract.rescues else []
    found = _balances(read, bronze, quarantine, unit, names)
    if all(one.right for one in found):
        return found
    # what is in a column that was declared later was rescued before, or left out
    later = _added(spark, stream, now)
    kept = [name for name in names if name.lower() not in (*later, "_rescued")]
    if not later or not kept:
        return found
    loosely = {one.unit: one for one in _balances(read, bronze, quarantine, unit, kept)}
    beside = tuple(name for name in names if name not in kept)
    return [one if one.right else replace(loosely[one.unit], beside=beside) for one in found]


def _added(spark: Any, stream: Stream, now: Moment) -> set[str]:
    """The columns, in lower case, that bronze got after it was made, as far as its log says it."""
    history = spark.sql(f"describe history delta.`{stream.bronze}`")
    rows = history.where(f"operation = 'ADD COLUMNS' and version <= {now.bronze}").collect()
    added = (one for row in rows for one in json.loads(row["operationParameters"]["columns"]))
    return {str(one["column"]["name"]).lower() for one in added}


def _balances(
    read: Any, bronze: Any, quarantine: Any, unit: Any, names: Sequence[str]
) -> list[Balance]:
    """The balances by unit, of rows that are equal in these columns.

    What quarantine has is taken from the records by its text; the others must be the rows of
    bronze. A record that the contract has refused since is told by its columns as well, as long as
    it has them.
    """
    from pyspark.sql import functions as F

    def row(frame: Any) -> Any:
        kinds = dict(bronze.select(*[f"`{name}`" for name in names]).dtypes)
        kinds = {name.lower(): kind for name, kind in kinds.items()}
        columns = [F.col(f"`{name}`") for name in names]
        shown = [
            F.hex(column) if kinds[name.lower()] == "binary" else column.cast("string")
            for name, column in zip(names, columns, strict=True)
        ]
        named = [one.alias(name) for one, name in zip(shown, names, strict=True)]
        return F.sha2(F.to_json(F.struct(*named)), 256).alias("row")

    def text(column: str) -> Any:
        return F.sha2(F.coalesce(column, F.lit("").cast("binary")), 256).alias("text")

    def number(name: str) -> Any:
        return F.coalesce(name, F.lit(0))

    unit = unit.alias("unit")
    has_columns = F.coalesce(~F.col("_bad.reason").isin("malformed", "type"), F.lit(True))
    if read is None:
        none_read = F.lit(None).cast("string").alias("row")
        records = quarantine.select(unit, text("record"), none_read).where("false")
    else:
        records = read.select(unit, text("_raw"), F.when(has_columns, row(read)).alias("row"))
    records = records.groupBy("unit", "text").agg(
        F.count("*").alias("n"), F.min("row").alias("row")
    )
    refused = quarantine.select(unit, text("record")).groupBy("unit", "text")
    refused = refused.agg(F.count("*").alias("q"))
    split = records.join(refused, ["unit", "text"], "full").select(
        "unit",
        "row",
        number("n").alias("read"),
        number("q").alias("quarantine"),
        (number("n") - number("q")).alias("rest"),
    )
    left = split.where("rest > 0 and row is not null").groupBy("unit", "row")
    left = left.agg(F.sum("rest").alias("rest"))
    rows = bronze.select(unit, row(bronze)).groupBy("unit", "row").agg(F.count("*").alias("b"))
    over = number("rest") - number("b")
    none, names_ = F.lit(0), ("unit", "read", "bronze", "quarantine", "missing", "extra")
    accounts = split.select(
        "unit",
        "read",
        none.alias("bronze"),
        "quarantine",
        F.when(F.col("row").isNull(), F.greatest("rest", none)).otherwise(none).alias("missing"),
        F.greatest(-F.col("rest"), none).alias("extra"),
    ).unionByName(
        left.join(rows, ["unit", "row"], "full").select(
            "unit",
            none.alias("read"),
            number("b").alias("bronze"),
            none.alias("quarantine"),
            F.greatest(over, none).alias("missing"),
            F.greatest(-over, none).alias("extra"),
        )
    )
    summed = accounts.groupBy("unit").agg(*[F.sum(name).alias(name) for name in names_[1:]])
    return [Balance(*(each[name] for name in names_)) for each in summed.orderBy("unit").collect()]


def _rate(spark: Any, stream: Stream, now: Moment) -> list[Balance]:
    """The numbers from 0 on, of which the source makes some every second."""
    from pyspark.sql import functions as F

    read = stream.checkpoint.rate_seconds(now.committed) * stream.contract.stream.rows_per_second
    found = _rows(spark, stream, now, ["_offset"]).where(F.col("_offset") < read)
    total, bronze, different = found.agg(
        F.count("*"), F.coalesce(F.sum("_bronze"), F.lit(0)), F.count_distinct("_offset")
    ).first()
    return [Balance("rate", read, bronze, total - bronze, read - different, total - different)]


def _source(stream: Stream) -> str:
    path = str(stream.contract.stream.path)
    return path if "://" in path else str(stream.path)


def _whole_versions(stream: Stream, now: Moment) -> int:
    """The first version that was not read.

    Raises WorkError while a version was read only in part, because batches are small.
    """
    found = stream.checkpoint.delta_position(now.committed)
    if found is None or not found[1]:
        raise WorkError(
            f"{stream.contract.name}: a version of its source was read only in part: run "
            "headwaters ingest until nothing is left"
        )
    return found[0]
