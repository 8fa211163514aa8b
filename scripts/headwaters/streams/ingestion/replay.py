"""`headwaters replay`: records that a corrected contract accepts move from quarantine to bronze.

Each moves once, in two commits, to bronze and then to quarantine. A note in the checkpoint around
them names the contract and the replayed version of quarantine. Bronze recognizes the version by
`txnAppId` and `txnVersion`, and accepts it once. A replay that was interrupted after its commit to
bronze repeats from its note; one before it starts over, because its contract may have been wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from itertools import chain
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headwaters.platform import places
from headwaters.platform.errors import CodedError, WorkError
from headwaters.platform.project import Project
from headwaters.streams.contract import Contract
from headwaters.streams.formats.problems import problem_of, with_problem
from headwaters.streams.formats.registry import format_of
from headwaters.streams.ingestion.duplicates import mark_repeated
from headwaters.streams.ingestion.spark import Say, each, silent, spark_of
from headwaters.streams.ingestion.split import row_key
from headwaters.streams.ingestion.widening import widened
from headwaters.streams.quarantine import has_settled
from headwaters.streams.sources.unreadable import FIELD, IS_FILE
from headwaters.streams.stream import Stream
from headwaters.tables.delta_log import exists
from headwaters.tables.delta_tables import TableSnapshot


@dataclass(frozen=True)
class Replayed:
    """The records that a replay moved, and those that stay in quarantine."""

    accepted: int
    refused: Counter[str]


def replay(
    project: Project,
    contracts: Sequence[Contract],
    dry_run: bool = True,
    spark: SparkSession | None = None,
    say: Say = silent,
) -> dict[str, Replayed | CodedError]:
    """Replay the quarantine of each stream, by name, or return its error; `dry_run` only counts.

    A stream cannot be replayed during ingestion, nor after an interrupted batch.
    """
    with spark_of(project, spark, say) as session:
        return {
            contract.name: _try_replay(session, Stream.of(project, contract), dry_run)
            for contract in each(contracts, "parsing the quarantine of", say)
        }


def _try_replay(spark: SparkSession, stream: Stream, dry_run: bool) -> Replayed | CodedError:
    try:
        with stream.checkpoint.held() as stream.hold:
            return _replay(spark, stream, dry_run)
    except CodedError as error:
        return error


def _replay(spark: SparkSession, stream: Stream, dry_run: bool) -> Replayed:
    if stream.checkpoint.unfinished:
        raise WorkError(
            "HW_INTERRUPTED_STREAM", "a batch was interrupted: run headwaters ingest first"
        )
    if not exists(stream.quarantine):
        return Replayed(0, Counter())
    quarantine = DeltaTable.forPath(spark, str(stream.quarantine))
    version = quarantine.history(1).collect()[0]["version"]
    table = TableSnapshot(spark, stream.bronze)
    before = table.version
    contract = widened(table, stream.contract)
    table.missing(contract.bronze_columns())  # refuses a column of another type
    note = stream.checkpoint.path / "replay.json"
    begun = json.loads(note.read_text()) if note.exists() else None
    if begun and table.batches.get(stream.checkpoint.replay_id) == begun["version"]:
        version, before = begun["version"], begun["bronze"]
        contract = widened(table, Contract.model_validate(begun["contract"]))
    bronze = table.at(before)
    rows = TableSnapshot(spark, stream.quarantine).at(version)
    if settled := has_settled(rows.columns):
        rows = rows.where("settled is null")
    files = rows.where(IS_FILE).count()  # without a record to parse
    kept = stream.checkpoint.fields_by_version()
    parsed = _parsed(contract, rows.where(f"({IS_FILE}) is not true"), bronze, kept)
    accepted, refused = _counted(parsed)
    refused = Counter({f"malformed {FIELD}": files}) + refused
    if dry_run or not accepted:
        return Replayed(accepted, refused)
    declared = contract.model_dump(mode="json", by_alias=True)
    noted = {"version": version, "bronze": before, "contract": declared}
    places.write(note, json.dumps(noted))
    stream.check_hold()
    table.make(contract.bronze_columns(), contract.bronze_properties())
    good = parsed.where("_bad is null")
    moved = good.withColumn("_ingested_at", F.lit(datetime.now(UTC))).select(
        *[F.col(f"`{name}`").cast(kind).alias(name) for name, kind in contract.bronze_columns()]
    )
    table.append(moved, stream.checkpoint.replay_id, version)
    stream.check_hold()
    _leave(quarantine, contract, parsed, settled)
    note.unlink()
    return Replayed(accepted, refused)


def _counted(parsed: DataFrame) -> tuple[int, Counter[str]]:
    """Return the number of accepted records, and of refused ones by reason."""
    accepted, refused = 0, Counter[str]()
    for row in parsed.groupBy("_bad.reason", "_bad.field").count().collect():
        if row["reason"] is None:
            accepted = row["count"]
        else:
            refused[" ".join(filter(None, (row["reason"], row["field"])))] = row["count"]
    return accepted, refused


def _leave(quarantine: DeltaTable, contract: Contract, parsed: DataFrame, settled: bool) -> None:
    """Delete records from quarantine that bronze now has, and no settled ones."""
    good = parsed.where("_bad is null")
    keys = ["_raw", *contract.origin, "_batch_id"]
    columns = {"_raw": "record"}
    same = " and ".join(f"q.`{columns.get(key, key)}` <=> s.`{key}`" for key in keys)
    same += " and q.settled is null" * settled
    moves = good.select(*keys, F.lit(False).alias("_stays")).distinct()
    if contract.stream.deduplicate:
        moves = moves.unionByName(_stay(contract, parsed, keys), allowMissingColumns=True)
    names = [name for name, _ in contract.quarantine_columns()]
    merge = quarantine.alias("q").merge(moves.alias("s"), f"{same} and not s._stays")
    merge = merge.whenMatchedDelete()
    if contract.stream.deduplicate:
        back: dict[str, Any] = {f"`{name}`": f"s.`{name}`" for name in names} | {
            "`record`": "s.`_raw`"
        }
        merge = merge.whenNotMatchedInsert("s._stays", back)
    merge.execute()


def _stay(contract: Contract, parsed: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the records that must stay in quarantine because their key occurs twice.

    Two equal lines of a file are indistinguishable, so both are deleted, and one is put back.
    """
    moves = F.max(F.col("_bad").isNull()).over(Window.partitionBy(*keys))
    left = parsed.withColumn("_moves", moves).where("_moves and _bad is not null")
    version = F.lit(contract.version).alias("contract")
    stays = F.lit(True).alias("_stays")
    return left.select(*keys, "_bad.*", version, *row_key(contract), "_ingested_at", stays)


def _parsed(
    contract: Contract, rows: DataFrame, bronze: DataFrame, kept: Mapping[str, Sequence[str]]
) -> DataFrame:
    """Parse quarantined records by a contract as if they had just arrived.

    If keys must not repeat, a record whose key is now in bronze stays, regardless of its reason.
    """
    parsed = reduce(DataFrame.unionByName, _by_fields(contract, rows, kept))
    if not contract.stream.deduplicate:
        return parsed
    late = F.when(F.col("_reason") == "late", problem_of("late"))
    return mark_repeated(contract, with_problem(parsed, late), bronze, None)


def _by_fields(
    contract: Contract, rows: DataFrame, kept: Mapping[str, Sequence[str]]
) -> Iterator[DataFrame]:
    """Yield parsed records. One of CSV, which has no names, has the fields of its own contract.

    `kept` has these in their order, by the contract's version.
    """
    fields = [column.field for column in contract.read_columns]
    others: dict[tuple[str, ...], list[str]] = {}
    for version, names in kept.items():
        if list(names) != fields:
            others.setdefault(tuple(names), []).append(version)
    of_others = F.coalesce(F.col("contract").isin(*chain(*others.values())), F.lit(False))
    yield format_of(contract).parse_again(rows.where(~of_others) if others else rows)
    for names, versions in others.items():
        chosen = rows.where(F.col("contract").isin(versions))
        if set(names) == set(fields) and len(names) == len(set(names)):
            read = sorted(contract.read_columns, key=lambda column: names.index(column.field))
            ordered = contract.model_copy(update={"columns": (*read, *contract.computed_columns)})
            yield format_of(ordered).parse_again(chosen)
        else:
            gone = F.lit("was kept with other columns: land its file again")
            parsed = format_of(contract).parse_again(chosen)
            yield with_problem(parsed, problem_of("malformed", message=gone))
