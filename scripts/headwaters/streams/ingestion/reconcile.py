"""`headwaters audit`: reconciliation, input = bronze + quarantine, record by record.

Kafka is compared with its broker by topic, partition and offset, `rate` by its numbers: each is in
one of the two tables, once. Rows of files and Delta tables do not contain their position. Existing
files and versions are parsed again, and compared with the rows of both tables as multisets. They
are compared row by row in all columns of the contract, by file and by version of a change feed.
Only records that the checkpoint has committed count: the tables are read at versions before a batch
or replay in progress.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.errors import CodedError, WorkError
from headwaters.platform.places import Place
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract
from headwaters.streams.formats.registry import format_of
from headwaters.streams.ingestion.inputs import source_of
from headwaters.streams.ingestion.spark import Say, each, silent, spark_of
from headwaters.streams.ingestion.stream_errors import coded
from headwaters.streams.ingestion.widening import widened
from headwaters.streams.quarantine import counted
from headwaters.streams.sources.base import Balance, Moment
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import commit_of, exists, first_after, version
from headwaters.tables.delta_tables import TableSnapshot
from headwaters.tables.ledger import ledger_of, removed_rows

# Rows of bronze that ingestion wrote; others have no batch.
OURS = "_batch_id is not null"

NONE_REMOVED: Mapping[str, int] = MappingProxyType({})


def audit(
    project: Project,
    contracts: Sequence[Contract],
    spark: SparkSession | None = None,
    say: Say = silent,
) -> dict[str, list[Balance] | CodedError]:
    """Return the balances of each stream by name, or its error. Starts Spark unless given."""
    with spark_of(project, spark, say) as session:
        return {
            contract.name: _balance(session, project, contract)
            for contract in each(contracts, "comparing", say)
        }


def _balance(
    spark: SparkSession, project: Project, contract: Contract
) -> list[Balance] | CodedError:
    """Return the balances of one stream, or its error, so that other streams continue."""
    stream = Stream.of(project, contract)
    try:
        return balance(spark, stream)
    except Exception as error:
        return coded(stream, error)


def right(found: Sequence[Balance] | CodedError, removed: Mapping[str, int] = NONE_REMOVED) -> bool:
    """Return true if every record is in exactly one table, or one of those that were removed.

    The removed rows are only counted: which records they came from is not known.
    """
    if isinstance(found, CodedError):
        return False
    missing = sum(balance.missing for balance in found)
    return missing <= sum(removed.values()) and not any(balance.extra for balance in found)


def balance(spark: SparkSession, stream: Stream) -> list[Balance]:
    """Return the balances of one stream, or none before its first batch."""
    if stream.checkpoint.committed < 0:
        return []
    now = moment(stream)
    contract = widened(TableSnapshot(spark, stream.bronze), stream.contract)
    comparison = _Comparison(spark, stream, now, contract)
    found = source_of(stream, contract).balance(spark, now, comparison.compare)
    if "foreign" in contract.stream.writers:
        return found
    foreign = TableSnapshot(spark, stream.bronze).at(now.bronze).where(f"not ({OURS})").count()
    others = [Balance("rows of another writer", 0, foreign, 0, 0, foreign)] if foreign else []
    return [*found, *others]


def moment(stream: Stream) -> Moment:
    """Return a moment without a batch in progress, before the present one.

    No process has to wait: this reads tables and checkpoint again until they do not change between
    two reads. Raises WorkError for a missing table, or a stream that never rests.
    """
    checkpoint = stream.checkpoint
    note = checkpoint.path / "replay.json"

    def look() -> tuple[int, int, int, str | None]:
        committed = checkpoint.committed
        tables = [version(table) for table in (stream.bronze, stream.quarantine)]
        for table, found in zip((stream.bronze, stream.quarantine), tables, strict=True):
            if found is None:
                raise WorkError("HW_RECONCILIATION", f"there is no table {table}: put it back")
        bronze, quarantine = (found for found in tables if found is not None)
        return committed, bronze, quarantine, note.read_text() if note.exists() else None

    for _ in range(1000):
        before = look()
        committed, bronze, quarantine, replay = before
        noted = json.loads(replay) if replay is not None else None
        # without its commit to bronze, the replay has changed nothing
        if noted and commit_of(stream.bronze, checkpoint.replay_id, noted["version"]) is not None:
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
    raise WorkError("HW_RECONCILIATION", "its tables change without a pause: try again")


def settled_records(project: Project, contract: Contract) -> int:
    """Return the number of settled records in a stream's quarantine."""
    found = counted(Stream.of(project, contract).quarantine)
    return found.settled if found else 0


def removed_records(project: Project, contracts: Sequence[Contract]) -> dict[str, Counter[str]]:
    """Return the rows that operations deleted from streams' tables: by stream, then operation."""
    ledger = ledger_of(project) if contracts else None
    if ledger is None:
        return {}
    return {one.name: removed_rows(ledger, _tables(project, one)) for one in contracts}


def _tables(project: Project, contract: Contract) -> dict[str, Place]:
    """Return the folders of a stream's existing tables, by name."""
    stream = Stream.of(project, contract)
    return {
        f"{contract.schema_name}.{table.name}": table
        for table in (stream.bronze, stream.quarantine)
        if exists(table)
    }


def summarise(
    name: str,
    balances: Sequence[Balance] | CodedError,
    settled: int = 0,
    removed: Mapping[str, int] = NONE_REMOVED,
) -> list[str]:
    """Return one line for a stream, and one for each wrong unit.

    `removed` has the rows that operations deleted: as many records may be missing.
    """
    if isinstance(balances, CodedError):
        said = balances.text.removeprefix(f"{name}: ")
        return [f"{name}: FAILED: [{balances.code}] {said}"]
    read, bronze, quarantine, missing, extra, unproven = (
        sum(getattr(b, key) for b in balances)
        for key in ("read", "bronze", "quarantine", "missing", "extra", "unproven")
    )
    is_right = right(balances, removed)
    verdict = "right" if is_right else f"WRONG: {missing:,} missing, {extra:,} extra"
    gone = (
        f"; {unproven:,} rows whose records the source no longer has are not compared"
        if unproven
        else ""
    )
    if beside := ", ".join(dict.fromkeys(name for b in balances for name in b.beside)):
        gone += f"; not compared in rows from before their declaration: {beside}"
    counts = f"{read:,} read = {bronze:,} bronze + {quarantine:,} quarantined"
    counts += f" ({settled:,} settled)" if settled else ""
    if missing and removed:
        counts += f" + {_removed(missing, removed)}"
    lines = [f"{name}: {counts}: {verdict}{gone}"]
    lines += [
        f"  {b.unit}: {b.read:,} read, {b.bronze:,} bronze, {b.quarantine:,} quarantined, "
        f"{b.missing:,} missing, {b.extra:,} extra"
        for b in balances
        if not (is_right or b.right)
    ]
    return lines


def _removed(missing: int, removed: Mapping[str, int]) -> str:
    """Return the number of missing records that operations removed, and the operations.

    If operations deleted more rows than records are missing, their numbers are left out: the source
    no longer has the records of the other rows, such as lines removed from a landing file.
    """
    deleted = sum(removed.values())
    if missing < deleted:
        return f"{missing:,} removed (by {' and '.join(sorted(removed))})"
    by_operation = ", ".join(f"{one} {rows:,}" for one, rows in sorted(removed.items()))
    return f"{deleted:,} removed ({by_operation})"


@dataclass(frozen=True)
class _Comparison:
    """A comparison of a source's records with the rows of both tables, at one moment."""

    spark: SparkSession
    stream: Stream
    now: Moment
    contract: Contract

    def compare(self, frames: Sequence[DataFrame], unit: Column) -> list[Balance]:
        """Return the balance of each unit: parse its records again, and compare both tables."""
        bronze = TableSnapshot(self.spark, self.stream.bronze).at(self.now.bronze).where(OURS)
        quarantine = TableSnapshot(self.spark, self.stream.quarantine).at(self.now.quarantine)
        contract = self.contract
        parsed = [format_of(contract).parse(raw) for raw in frames]
        read = reduce(DataFrame.unionByName, parsed) if parsed else None
        there = {name.lower() for name in bronze.columns}
        names = [column.name for column in contract.columns if column.name.lower() in there]
        names += ["_rescued"] if contract.rescues else []
        names += [name for name, _ in contract.marks if name in there]
        found = _balances(read, bronze, quarantine, unit, names)
        if all(one.right for one in found):
            return found
        # earlier batches rescued or dropped the values of a column declared later
        later = self._added()
        kept = [name for name in names if name.lower() not in (*later, "_rescued")]
        if not later or not kept:
            return found
        loosely = {one.unit: one for one in _balances(read, bronze, quarantine, unit, kept)}
        beside = tuple(name for name in names if name not in kept)
        return [one if one.right else replace(loosely[one.unit], beside=beside) for one in found]

    def _added(self) -> set[str]:
        """Return the lower-case columns added to bronze after its creation, from its log."""
        history = self.spark.sql(f"describe history delta.`{self.stream.bronze}`")
        until = f"operation = 'ADD COLUMNS' and version <= {self.now.bronze}"
        rows = history.where(until).collect()
        added = (one for row in rows for one in json.loads(row["operationParameters"]["columns"]))
        return {str(one["column"]["name"]).lower() for one in added}


def _balances(
    read: DataFrame | None,
    bronze: DataFrame,
    quarantine: DataFrame,
    unit: Column,
    names: Sequence[str],
) -> list[Balance]:
    """Return the balances by unit, of rows that are equal in these columns.

    Quarantined records are subtracted by their text; the others must be the rows of bronze. A
    record that the contract has started to refuse since is also matched by its columns, as long as
    it has them.
    """

    def row(frame: DataFrame) -> Column:
        kinds = dict(bronze.select(*[f"`{name}`" for name in names]).dtypes)
        kinds = {name.lower(): kind for name, kind in kinds.items()}
        columns = [F.col(f"`{name}`") for name in names]
        shown = [
            F.hex(column) if kinds[name.lower()] == "binary" else column.cast("string")
            for name, column in zip(names, columns, strict=True)
        ]
        named = [one.alias(name) for one, name in zip(shown, names, strict=True)]
        return F.sha2(F.to_json(F.struct(*named)), 256).alias("row")

    def text(column: str) -> Column:
        return F.sha2(F.coalesce(column, F.lit("").cast("binary")), 256).alias("text")

    def number(name: str) -> Column:
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
    kept = quarantine.select(unit, text("record")).groupBy("unit", "text")
    refused = kept.agg(F.count("*").alias("q"))
    split = records.join(refused, ["unit", "text"], "full").select(
        "unit",
        "row",
        number("n").alias("read"),
        number("q").alias("quarantine"),
        (number("n") - number("q")).alias("rest"),
    )
    rest = split.where("rest > 0 and row is not null").groupBy("unit", "row")
    left = rest.agg(F.sum("rest").alias("rest"))
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
