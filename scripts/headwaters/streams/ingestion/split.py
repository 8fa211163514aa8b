"""The split of a parsed batch into the rows of bronze and the rows of quarantine.

This module only builds expressions; it reads and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, reduce

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headwaters.platform.sql import identifier
from headwaters.streams.contract import ROW_KEY, Contract
from headwaters.streams.formats.base import PLACE
from headwaters.streams.formats.problems import problem_of
from headwaters.streams.ingestion.duplicates import newest_event
from headwaters.streams.sources.unreadable import FIELD
from headwaters.streams.stream import Stream


def unknown_fields(parsed: DataFrame) -> list[str]:
    """Return the names of the fields in a parsed batch that are not columns, in order."""
    names = F.explode(F.expr("json_object_keys(_rescued)")).alias("name")
    found = parsed.where("_rescued is not null").select(names).distinct().collect()
    return sorted(row["name"] for row in found)


def good_rows(
    contract: Contract, parsed: DataFrame, at: datetime, batch: int, counts: Observation
) -> DataFrame:
    """Return the rows of bronze in a parsed batch.

    `counts` receives the numbers of `good` and `bad` records, and the `places` of the bad ones for
    `among`.
    """
    rows = parsed.select("*", *_batch_columns(at, batch)).select(
        *_cast_to(tuple(contract.bronze_columns())), "_good", PLACE
    )
    more = [F.bitmap_construct_agg(F.when(~F.col("_good"), F.col(PLACE))).alias("places")]
    if contract.stream.deduplicate:
        more.append(newest_event(contract, F.col("_good")))
    return _parsed_once(rows, counts, *more).where("_good").drop("_good", PLACE)


@cache
def _cast_to(columns: Sequence[tuple[str, str]]) -> list[Column]:
    return [F.col(f"`{name}`").cast(kind).alias(name) for name, kind in columns]


_PLACES = 2**15  # bits, the size of one value of `bitmap_construct_agg`


def with_place(raw: DataFrame) -> DataFrame:
    """Add `_place`, one of 32,768 by a record's content: the same each time it is read."""
    hashed = [name for name, kind in raw.dtypes if not re.search("map<|variant", kind)]
    columns = [F.col(identifier(name)) for name in hashed]
    place = F.pmod(F.xxhash64(F.lit(0), *columns), F.lit(_PLACES))
    return raw.withColumn(PLACE, place)


def among(places: bytes) -> Column:
    """Return true for records with a place in a bitmap, so that only few are parsed again."""
    bits = bytes(byte >> bit & 1 for byte in places for bit in range(8))
    return F.substring(F.lit(bits), (F.col(PLACE) + 1).cast("int"), F.lit(1)) == F.lit(b"\1")


def bad_rows(contract: Contract, parsed: DataFrame, at: datetime, batch: int) -> DataFrame:
    """Return the rows of quarantine in a parsed batch."""
    rows = parsed.select("_raw", "_good", "_bad", *row_key(contract), *contract.origin)
    rows = _parsed_once(rows, Observation())
    rows = rows.where("not _good").select(
        "*",
        "_bad.*",
        F.col("_raw").alias("record"),
        F.lit(contract.version).alias("contract"),
        *_batch_columns(at, batch),
    )
    return rows.select(*_cast_to(tuple(contract.quarantine_columns())))


def row_key(contract: Contract) -> list[Column]:
    """Return the key of the row that an event changes, as JSON, or nothing without `changes`."""
    changes = contract.stream.changes
    if changes is None:
        return []
    columns = [F.col(identifier(name)) for name in changes.key]
    known = reduce(Column.__and__, [column.isNotNull() for column in columns])
    return [F.when(known, F.to_json(F.struct(*columns))).alias(ROW_KEY[0])]


def _parsed_once(rows: DataFrame, counts: Observation, *more: Column) -> DataFrame:
    """Put an observation between the parsing and the later steps.

    Otherwise Spark would push the filter on `_good` below the parsing, and parse again for each
    column of the filter.
    """
    good = F.col("_good")
    number = (F.count_if(good).alias("good"), F.count_if(~good).alias("bad"))
    return rows.observe(counts, *number, *more)


def _batch_columns(at: datetime, batch: int) -> list[Column]:
    return [F.lit(at).alias("_ingested_at"), F.lit(batch).cast("bigint").alias("_batch_id")]


def unreadable_rows(
    spark: SparkSession,
    stream: Stream,
    contract: Contract,
    files: Mapping[str, str],
    field: str | None = FIELD,
) -> DataFrame:
    """Return unreadable files in the form of `Format.parse`: records that are not good."""
    named = [(file.removeprefix(f"file://{stream.lake}/"), why) for file, why in files.items()]
    frame = spark.createDataFrame(named, "_source_file string, why string")
    return frame.select(
        *[F.lit(None).cast(c.data_type).alias(c.name) for c in contract.columns],
        "_source_file",
        F.lit(0).cast("bigint").alias(PLACE),
        F.col("_source_file").cast("binary").alias("_raw"),
        F.lit(None).cast("string").alias("_rescued"),
        *[F.lit(None).cast(kind).alias(name) for name, kind in contract.marks],
        F.lit(False).alias("_good"),
        problem_of("malformed", F.lit(field).cast("string"), F.col("why")).alias("_bad"),
    )
